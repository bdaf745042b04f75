package scan

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Score says how well a detector of a policy does on labelled sessions.
type Score struct {
	Policy   string `json:"policy"`
	Detector string `json:"detector"`
	// Found counts the sessions in which it found a loop among the Stuck ones, False among the
	// Honest ones.
	Found  int `json:"found"`
	Stuck  int `json:"stuck"`
	False  int `json:"false"`
	Honest int `json:"honest"`
	// Late is the number of requests from the first stale one to the finding; nil if not known.
	Late      *Median  `json:"late_requests,omitempty"`
	Precision Interval `json:"precision"`
	Recall    Interval `json:"recall"`
}

// Interval is a share with its 95 % confidence interval (Wilson score).
type Interval struct {
	Share float64 `json:"share"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// wilson returns the share of k in n. For n = 0, the interval is from 0 to 1.
func wilson(k, n int) Interval {
	if n == 0 {
		return Interval{0, 0, 1}
	}
	const z = 1.959964 // of 95 %
	p, m := float64(k)/float64(n), float64(n)
	middle, half, scale := p+z*z/(2*m), z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m)), 1+z*z/m
	return Interval{p, max(0, (middle-half)/scale), min(1, (middle+half)/scale)}
}

// Median is a median with its 95 % confidence interval by order statistics, which works for any
// distribution. With fewer than six numbers there is none, and Low and High are nil.
type Median struct {
	Median int  `json:"median"`
	Low    *int `json:"low,omitempty"`
	High   *int `json:"high,omitempty"`
}

// medianOf returns the median of numbers; nil for none. The interval goes from the k-th number
// to the k-th from the end, with the largest k for which the median is below it, as k-1 or
// fewer of n tosses of a coin, with a probability of at most 2.5 %.
func medianOf(numbers []int) *Median {
	n := len(numbers)
	if n == 0 {
		return nil
	}
	slices.Sort(numbers)
	out := &Median{Median: numbers[n/2]}
	k, below, term := 0, 0.0, math.Pow(0.5, float64(n))
	for {
		if below += term; below > 0.025 {
			break
		}
		k++
		term *= float64(n-k+1) / float64(k)
	}
	if k > 0 {
		out.Low, out.High = &numbers[k-1], &numbers[n-k]
	}
	return out
}

// Measure compares findings with labels, for each detector of each policy and for each policy as
// a whole (detector "any"). unread is the number of labels whose sessions were not read; these
// do not count.
func Measure(r *Report, labels Labels) (scores []Score, unread int) {
	type key struct{ policy, detector string }
	found := map[key]map[place]int{}
	for _, l := range r.Loops {
		for _, d := range append([]string{"any"}, l.Detectors...) {
			k := key{l.Policy, d}
			if found[k] == nil {
				found[k] = map[place]int{}
			}
			for _, at := range l.places() {
				found[k][at] = earlier(found[k][at], l.Did.Found)
			}
		}
	}
	if len(found) == 0 { // nothing was found by any policy
		found[key{"all", "any"}] = nil
	}
	read := r.read(labels)
	scores = []Score{}
	for _, k := range slices.SortedFunc(maps.Keys(found), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.policy, b.policy), cmp.Compare(a.detector, b.detector))
	}) {
		scores = append(scores, score(k.policy, k.detector, found[k], read))
	}
	return scores, len(labels) - len(read)
}

// score compares the findings of one detector with labels.
func score(policy, detector string, found map[place]int, labels Labels) Score {
	s := Score{Policy: policy, Detector: detector}
	var late []int
	for name, l := range labels {
		at := found[name]
		switch l.Verdict {
		case Stuck, Right:
			s.Stuck++
			s.Found += one(at > 0)
			if at > 0 && l.Stale > 0 {
				late = append(late, max(0, at-l.Stale))
			}
		case Honest, Wrong:
			s.Honest++
			s.False += one(at > 0)
		}
	}
	s.Late, s.Precision, s.Recall = medianOf(late), wilson(s.Found, s.Found+s.False), wilson(s.Found, s.Stuck)
	return s
}
