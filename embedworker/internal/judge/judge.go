// Package judge decides whether a text repeats what came before it in other
// words. It takes vectors, marks and a policy's numbers, and returns a verdict.
//
// It is pure: it makes no vectors, keeps no history, knows no clock and no
// wire. A history is handed to it, newest first.
package judge

import (
	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/internal/marks"
)

// Subject is what is compared: the newest exchange, or one text alone.
type Subject struct {
	// Halves are unit vectors: of one text, or of what the agent said and of
	// what it was answered. An empty half has no vector (nil).
	Halves [][]float32
	// Marks are the numbers and identifiers of both halves.
	Marks marks.Sum
}

// Similarity is 1 - distance/2 for a cosine distance (0 to 2), as Agent
// Sentinel defines it; what rounding pushed out of range is clamped.
func Similarity(distance float64) float64 {
	return 1 - max(0, min(2, distance))/2
}

// Compare returns the similarity of two subjects, that of their less similar
// halves: an agent that gets a new answer to the same words makes progress.
// Subjects of different kinds have nothing in common.
func Compare(a, b Subject) float64 {
	if len(a.Halves) != len(b.Halves) {
		return 0
	}
	least := 1.0
	for i := range a.Halves {
		least = min(least, half(a.Halves[i], b.Halves[i]))
	}
	return least
}

func half(a, b []float32) float64 {
	switch {
	case len(a) == 0 && len(b) == 0:
		return 1
	case len(a) != len(b):
		return 0
	}
	return Similarity(1 - embed.Cosine(a, b))
}

// Rule are a policy's numbers.
type Rule struct {
	// Threshold must be exceeded, not reached.
	Threshold float64
	// MinMatches is how many of the history must be that similar; 0 means 1.
	MinMatches int
	// AnyMarks compares texts whose numbers and identifiers differ, as the
	// source's rule does.
	AnyMarks bool
}

// Past is one entry of the history, compared with the subject.
type Past struct {
	Similarity float64
	SameMarks  bool
}

// Verdict is what the judge found.
type Verdict struct {
	Detected bool
	// MaxSimilarity is the largest of the comparable entries, 0 with none.
	MaxSimilarity float64
	// Matches are the indexes of the entries above the threshold.
	Matches []int
}

// Decide weighs a history.
func Decide(history []Past, r Rule) Verdict {
	var v Verdict
	for i, p := range history {
		if !p.SameMarks && !r.AnyMarks {
			continue
		}
		v.MaxSimilarity = max(v.MaxSimilarity, p.Similarity)
		if p.Similarity > r.Threshold {
			v.Matches = append(v.Matches, i)
		}
	}
	v.Detected = len(v.Matches) >= max(1, r.MinMatches)
	return v
}
