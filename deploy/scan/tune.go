package scan

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/unloop/unloop/schemas/policy"
)

// Setting is a threshold that Tune tries.
type Setting struct {
	Name   string
	Values []float64
	// get returns the value of a policy, false if its detector is off.
	get func(*policy.Spec) (float64, bool)
	set func(*policy.Spec, float64)
}

// Settings are the thresholds that Tune tries, in this order.
var Settings = []Setting{
	{"prompt.max_hits", []float64{3, 4, 5, 8, 12},
		func(s *policy.Spec) (float64, bool) {
			return number(s.Prompt.Active(), func() int { return s.Prompt.MaxHits })
		},
		func(s *policy.Spec, v float64) { s.Prompt.MaxHits = int(v) }},
	{"tool.warn_threshold", []float64{2, 3, 4, 6, 8},
		func(s *policy.Spec) (float64, bool) {
			return number(s.Tool != nil && s.Tool.Enabled && len(s.Tool.Escalation) == 0, func() int { return s.Tool.WarnThreshold })
		},
		func(s *policy.Spec, v float64) { s.Tool.WarnThreshold = int(v) }},
	{"tool.block_threshold", []float64{4, 5, 6, 8, 12, 16},
		func(s *policy.Spec) (float64, bool) {
			return number(s.Tool != nil && s.Tool.Enabled && len(s.Tool.Escalation) == 0, func() int { return s.Tool.BlockThreshold })
		},
		func(s *policy.Spec, v float64) { s.Tool.BlockThreshold = int(v) }},
	{"cycle.repeats", []float64{2, 3, 4, 6},
		func(s *policy.Spec) (float64, bool) {
			return number(s.Cycle != nil && s.Cycle.Enabled, func() int { return s.Cycle.Repeats })
		},
		func(s *policy.Spec, v float64) { s.Cycle.Repeats = int(v) }},
	{"semantic.threshold", []float64{0.9, 0.93, 0.95, 0.97, 0.99},
		func(s *policy.Spec) (float64, bool) {
			if s.Semantic == nil || !s.Semantic.Enabled {
				return 0, false
			}
			return s.Semantic.Threshold, true
		},
		func(s *policy.Spec, v float64) { s.Semantic.Threshold = v }},
}

func number(on bool, get func() int) (float64, bool) {
	if !on {
		return 0, false
	}
	return float64(get()), true
}

// Outcome counts what a bundle does with labelled sessions.
type Outcome struct {
	Stuck          int `json:"stuck"`
	Found          int `json:"found"`
	Stopped        int `json:"stopped"`
	Honest         int `json:"honest"`
	FalselyFound   int `json:"falsely_found"`
	FalselyStopped int `json:"falsely_stopped"`

	// early grows the earlier stuck sessions are stopped, and the later honest ones.
	early float64
}

// String returns it in words.
func (o Outcome) String() string {
	return fmt.Sprintf("%d of %d stuck sessions found and %d stopped, %d of %d honest ones found and %d stopped", o.Found, o.Stuck, o.Stopped, o.FalselyFound, o.Honest, o.FalselyStopped)
}

// worth rates an outcome: stopping an honest session costs as much as missing five stuck ones,
// hinting it as much as missing one. Between equal outcomes, it decides when sessions are
// stopped. So two settings that let something pass only together are found one by one.
func (o Outcome) worth() float64 {
	return (float64(o.Found)+float64(o.Stopped)/2)/float64(max(1, o.Stuck)) - (float64(o.FalselyFound)+5*float64(o.FalselyStopped))/float64(max(1, o.Honest)) + o.early/100
}

// lacks returns warnings about what a half of the sessions can't show.
func (o Outcome) lacks(half string) (all []string) {
	if o.Stuck == 0 {
		all = append(all, half+" has no stuck session: nothing says which loops are missed")
	}
	if o.Honest == 0 {
		all = append(all, half+" has no honest session: nothing says what is stopped for no reason")
	}
	return all
}

// outcome counts what was done with the labelled sessions of one half.
func outcome(r *Report, labels Labels, second bool) (o Outcome) {
	did := map[place]Did{}
	for _, l := range r.Loops {
		for _, at := range l.places() {
			did[at] = did[at].first(l.Did)
		}
	}
	for at, l := range r.read(labels) {
		d := did[at]
		switch {
		case inSecond(l.name()) != second:
		case l.Verdict == Stuck || l.Verdict == Right:
			o.Stuck++
			o.Found += one(d.Found > 0)
			o.Stopped += one(d.Stopped > 0)
			o.early += soon(d)
		case l.Verdict == Honest || l.Verdict == Wrong:
			o.Honest++
			o.FalselyFound += one(d.Found > 0)
			o.FalselyStopped += one(d.Stopped > 0)
			o.early -= soon(d)
		}
	}
	return o
}

// soon is higher the sooner a session is stopped, and 0 if it is not.
func soon(d Did) float64 {
	if d.Stopped == 0 {
		return 0
	}
	return 1 / float64(d.Stopped)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// inSecond reports whether a session is in the second half of a set, by a hash of its name.
func inSecond(session string) bool {
	sum := sha256.Sum256([]byte(session))
	return sum[0]&1 == 1
}

// Tuned is the result of Tune.
type Tuned struct {
	// Before and After are outcomes on the half that the search did not see.
	Before  Outcome  `json:"before"`
	After   Outcome  `json:"after"`
	Adopted []Choice `json:"adopted"`
	// Warnings say what the labels can't show.
	Warnings []string `json:"warnings,omitempty"`
	Bundle   string   `json:"-"`
}

// Choice is a changed setting, with the outcomes on the half that was searched, and the sessions
// that the change affects.
type Choice struct {
	Policy  string   `json:"policy"`
	Setting string   `json:"setting"`
	From    float64  `json:"from"`
	To      float64  `json:"to"`
	Before  Outcome  `json:"before"`
	After   Outcome  `json:"after"`
	Changes []Change `json:"changes"`
}

// Why says what was changed and what that does on the half that was searched.
func (c *Choice) Why() string {
	why := fmt.Sprintf("%s %g, was %g. Before: %s. After: ", c.Setting, c.To, c.From, c.Before)
	if c.After.String() == c.Before.String() {
		return why + "the same, but stuck sessions are stopped sooner, or honest ones later."
	}
	return why + c.After.String() + "."
}

// Tune searches thresholds of a bundle on one half of the labelled sessions, one setting after
// another, and reports how well they do on the other half. It returns the bundle with the reasons
// as comments, and changes the given one.
func Tune(ctx context.Context, files []File, labels Labels, bundle *policy.Bundle, cfg Config) (*Tuned, error) {
	t := tuner{ctx: ctx, files: files, cfg: cfg}
	best, err := t.scan(bundle)
	if err != nil {
		return nil, err
	}
	searched := outcome(best, labels, false)
	out := &Tuned{Before: outcome(best, labels, true), Adopted: []Choice{}}
	out.Warnings = append(searched.lacks("the half that is searched"), out.Before.lacks("the other half, on which is reported,")...)
	if unread := len(labels) - len(best.read(labels)); unread > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d labels are about sessions that were not read", unread))
	}
	for i := range bundle.Policies {
		for _, s := range Settings {
			from, on := s.get(&bundle.Policies[i].Spec)
			if !on {
				continue
			}
			adopted, report, err := t.best(bundle, i, s, from, best, labels)
			if err != nil {
				return nil, err
			}
			if adopted != from {
				s.set(&bundle.Policies[i].Spec, adopted)
				out.Adopted = append(out.Adopted, Choice{
					bundle.Policies[i].ID, s.Name, from, adopted, outcome(best, labels, false), outcome(report, labels, false), Compare(best, report),
				})
				best = report
			}
		}
	}
	out.After = outcome(best, labels, true)
	out.Bundle, err = out.commented(bundle)
	return out, err
}

// commented returns the bundle below the reasons for its changes.
func (t *Tuned) commented(bundle *policy.Bundle) (string, error) {
	text, err := bundle.Commented()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, c := range t.Adopted {
		fmt.Fprintf(&out, "# %s: %s\n", c.Policy, c.Why())
	}
	fmt.Fprintf(&out, "# On the other half of the sessions, before: %s. After: %s.\n", t.Before, t.After)
	return out.String() + string(text), nil
}

// tuner evaluates bundles on files.
type tuner struct {
	ctx   context.Context
	files []File
	cfg   Config
}

// best returns the best value of a setting and its report.
func (t *tuner) best(bundle *policy.Bundle, i int, s Setting, from float64, known *Report, labels Labels) (float64, *Report, error) {
	best, report := from, known
	for _, value := range s.Values {
		if value == from {
			continue
		}
		other, err := clone(bundle)
		if err != nil {
			return 0, nil, err
		}
		s.set(&other.Policies[i].Spec, value)
		if other, err = clone(other); err != nil {
			continue // it contradicts another setting
		}
		r, err := t.scan(other)
		if err != nil {
			return 0, nil, err
		}
		if outcome(r, labels, false).worth() > outcome(report, labels, false).worth() {
			best, report = value, r
		}
	}
	return best, report, nil
}

// clone returns a copy of a bundle, or an error if it is not valid.
func clone(bundle *policy.Bundle) (*policy.Bundle, error) {
	text, err := bundle.Commented()
	if err != nil {
		return nil, err
	}
	return policy.Parse(text)
}

func (t *tuner) scan(bundle *policy.Bundle) (*Report, error) {
	folder, err := os.MkdirTemp("", "unloop-tune")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	text, err := bundle.Commented()
	if err != nil {
		return nil, err
	}
	cfg := t.cfg
	cfg.Policies = filepath.Join(folder, "bundle.yaml")
	if err := os.WriteFile(cfg.Policies, text, 0o600); err != nil {
		return nil, err
	}
	return Files(t.ctx, t.files, cfg)
}
