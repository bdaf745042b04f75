package scan

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// LabelsFile is the name of the file beside a set that has the labels of its sessions.
const LabelsFile = "unloop-labels.jsonl"

// Verdict is what a person says of a session.
type Verdict string

// The verdicts. Right, Wrong and Unsure are about what was found in a session; Stuck and
// Honest are about a session whatever was found.
const (
	Right  Verdict = "right"
	Wrong  Verdict = "wrong"
	Unsure Verdict = "unsure"
	Stuck  Verdict = "stuck"
	Honest Verdict = "honest"
)

// Label is a person's verdict about a session.
type Label struct {
	// File is the name of the session's file, Session the name in reports.
	File    string  `json:"file"`
	Session string  `json:"session"`
	Verdict Verdict `json:"verdict"`
	// Stale is the first request that brought nothing new; 0 if it is not known.
	Stale int `json:"stale,omitempty"`
	// Note says why, in the words of whoever labels.
	Note string `json:"note,omitempty"`
}

// ReadLabels reads labels, one JSON object a line. Of several about a session, the last
// counts.
func ReadLabels(r io.Reader) (map[string]Label, error) {
	out := map[string]Label{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var l Label
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if !slices.Contains([]Verdict{Right, Wrong, Unsure, Stuck, Honest}, l.Verdict) || l.Session == "" {
			return nil, fmt.Errorf("line %d: want a session and a verdict: right, wrong, unsure, stuck or honest", n)
		}
		out[l.Session] = l
	}
	return out, lines.Err()
}

// LabelsBeside returns the labels beside files and folders of a set; empty without any.
func LabelsBeside(paths []string) (map[string]Label, error) {
	out := map[string]Label{}
	for _, path := range paths {
		folder := path
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			folder = filepath.Dir(path)
		}
		f, err := os.Open(filepath.Join(folder, LabelsFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found, err := ReadLabels(f)
		_ = f.Close() // it was only read
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		maps.Copy(out, found)
	}
	return out, nil
}

// Append adds a label to the file beside a set.
func (l Label) Append(folder string) (err error) {
	f, err := os.OpenFile(filepath.Join(folder, LabelsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return json.NewEncoder(f).Encode(l)
}

// Score is how a detector of a policy does on labelled sessions.
type Score struct {
	Policy   string `json:"policy"`
	Detector string `json:"detector"`
	// Found counts the stuck sessions in which it found a loop, of Stuck ones; False the honest
	// ones, of Honest ones.
	Found  int `json:"found"`
	Stuck  int `json:"stuck"`
	False  int `json:"false"`
	Honest int `json:"honest"`
	// Late is the median number of requests between the first stale one and the finding; -1
	// if it is not known.
	Late      int      `json:"late_requests"`
	Precision Interval `json:"precision"`
	Recall    Interval `json:"recall"`
}

// Interval is a share with its 95 % confidence interval, by Wilson's score.
type Interval struct {
	Share float64 `json:"share"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// wilson returns the share of k in n. Without any, it may be all between 0 and 1.
func wilson(k, n int) Interval {
	if n == 0 {
		return Interval{0, 0, 1}
	}
	const z = 1.959964 // of 95 %
	p, m := float64(k)/float64(n), float64(n)
	middle, half, scale := p+z*z/(2*m), z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m)), 1+z*z/m
	return Interval{p, max(0, (middle-half)/scale), min(1, (middle+half)/scale)}
}

// Measure compares what was found with labels: for each detector of each policy, and for each
// policy as a whole (detector "any").
func Measure(r *Report, labels map[string]Label) []Score {
	type key struct{ policy, detector string }
	found := map[key]map[string]int{}
	for _, l := range r.Loops {
		for _, d := range append([]string{"any"}, l.Detectors...) {
			at := key{l.Policy, d}
			if found[at] == nil {
				found[at] = map[string]int{}
			}
			found[at][l.Session] = earlier(found[at][l.Session], l.Did.Found)
		}
	}
	out := []Score{}
	for _, at := range slices.SortedFunc(maps.Keys(found), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.policy, b.policy), cmp.Compare(a.detector, b.detector))
	}) {
		out = append(out, score(at.policy, at.detector, found[at], labels))
	}
	return out
}

// score counts the labelled sessions in which something was found.
func score(policy, detector string, found map[string]int, labels map[string]Label) Score {
	s := Score{Policy: policy, Detector: detector, Late: -1}
	var late []int
	for name, l := range labels {
		at := found[name]
		switch l.Verdict {
		case Stuck, Right:
			s.Stuck++
			if at > 0 {
				s.Found++
			}
			if at > 0 && l.Stale > 0 {
				late = append(late, max(0, at-l.Stale))
			}
		case Honest, Wrong:
			s.Honest++
			if at > 0 {
				s.False++
			}
		}
	}
	if len(late) > 0 {
		slices.Sort(late)
		s.Late = late[len(late)/2]
	}
	s.Precision, s.Recall = wilson(s.Found, s.Found+s.False), wilson(s.Found, s.Stuck)
	return s
}
