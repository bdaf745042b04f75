// Package compare decides whether a text repeats, in other words, what came before it. It takes
// vectors, details, a policy's parameters and a history, newest first.
//
// It is pure: it makes no vectors, stores nothing, and knows neither clocks nor wire formats.
package compare

import (
	"slices"

	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/schemas/details"
)

// Subject is the text to compare: the newest exchange, or a single text.
type Subject struct {
	// Halves are the unit vectors of a text, or of what the agent said and of the answer to
	// it. An empty half has no vector (nil).
	Halves [][]float32
	// Details are the numbers, identifiers and negations of both halves.
	Details details.Sum
	// Sentences are those of a text, or of a human's answer; empty if unknown.
	Sentences Sentences
	// Beginnings are the beginnings of these sentences; empty if unknown.
	Beginnings Sentences
	// Digest is equal for identical subjects; 0 if unknown.
	Digest uint64
}

// FromDistance returns the similarity for a cosine distance (0 to 2):
// 1 - distance/2, as Agent Sentinel defines it. A distance that rounding pushed out
// of range is clamped.
func FromDistance(distance float64) float64 {
	return 1 - max(0, min(2, distance))/2
}

// Stored is a vector as a store keeps it; an empty half has no coordinates.
type Stored interface {
	Dim() int
	// Cosine returns the cosine with a unit vector of as many coordinates.
	Cosine(with []float32) float64
}

// Plain is a unit vector that is stored as it is.
type Plain []float32

// Dim implements Stored.
func (p Plain) Dim() int { return len(p) }

// Cosine implements Stored.
func (p Plain) Cosine(with []float32) float64 { return embed.Cosine(with, p) }

// Similarity returns the similarity of a subject to another one whose halves are stored (0 to
// 1): that of their less similar halves, since an agent that gets a new answer to the same
// words makes progress. It is 0 for subjects of different kinds.
func Similarity[V Stored](a Subject, halves []V) float64 {
	if len(a.Halves) != len(halves) {
		return 0
	}
	least := 1.0
	for i, h := range halves {
		least = min(least, half(a.Halves[i], h))
	}
	return least
}

func half[V Stored](a []float32, b V) float64 {
	switch dim := b.Dim(); {
	case len(a) == 0 && dim == 0:
		return 1
	case len(a) != dim:
		return 0
	}
	return FromDistance(1 - b.Cosine(a))
}

// Method is how the entries of a history are selected and compared.
type Method uint8

// The methods.
const (
	// ByEmbeddings compares with every entry.
	ByEmbeddings Method = iota
	// BySentences finds the entries that the subject repeats word for word.
	BySentences
	// InOwnHistory compares, by embeddings, with the entries in the subject's own
	// conversation.
	InOwnHistory
)

// Rule holds a policy's parameters.
type Rule struct {
	// Threshold must be exceeded, not reached.
	Threshold float64
	// Within is the threshold for entries in the subject's own conversation; 0 means
	// Threshold.
	Within float64
	// MinMatches is the number of entries that must exceed the threshold; 0 means 1.
	MinMatches int
	// AnyDetails also compares texts whose details differ, as Agent Sentinel's
	// rule does.
	AnyDetails bool
	Method     Method
	// Earlier are the digests of the exchanges before the subject in its conversation. Each
	// stands for one entry.
	Earlier []uint64
	// Further are the digests of still earlier exchanges, which stand for no entry.
	Further []uint64
	// Others are the digests of those of both that are about another item than the subject.
	Others []uint64
	// LeaveIdentical excludes entries that have the subject's digest.
	LeaveIdentical bool
}

// Past is one entry of the history with the result of its comparison.
type Past struct {
	Similarity  float64
	SameDetails bool
	// Repeats and OtherItem are the results of Sentences' methods.
	Repeats, OtherItem bool
	// Identical says that the subject has the entry's Digest.
	Identical bool
	Digest    uint64
}

// Compared adds to an entry of the history the comparison of its sentences and its digest (0 if
// unknown) with the subject's.
func (s Subject) Compared(p Past, sentences Sentences, digest uint64) Past {
	p.Repeats = s.Sentences.Repeats(sentences)
	p.OtherItem = s.Sentences.OtherItem(sentences) || s.Sentences.goesOn(sentences, s.Beginnings)
	p.Identical, p.Digest = s.Digest != 0 && s.Digest == digest, digest
	return p
}

// Result is the outcome of a comparison with a history.
type Result struct {
	Detected bool
	// Repeats reports whether enough of the matches have the subject's sentences.
	Repeats bool
	// MaxSimilarity is the largest similarity of a comparable entry; 0 for none.
	MaxSimilarity float64
	// Matches are the indexes of the entries above the threshold.
	Matches []int
}

// Decide compares the entries of a history with the rule's thresholds.
func Decide(history []Past, r Rule) Result {
	var v Result
	repeats := 0
	shown := newShown(r.Earlier)
	for i, p := range history {
		inOwn := shown.take(p.Digest)
		similarity, comparable := r.compare(p, inOwn)
		if !comparable {
			continue
		}
		v.MaxSimilarity = max(v.MaxSimilarity, similarity)
		if similarity > r.threshold(inOwn) {
			v.Matches = append(v.Matches, i)
			if p.Repeats {
				repeats++
			}
		}
	}
	least := max(1, r.MinMatches)
	v.Detected, v.Repeats = len(v.Matches) >= least, repeats >= least
	return v
}

// threshold returns the threshold for an entry. A request has no earlier exchanges if the provider
// stores the conversation; then all entries count as being in it.
func (r Rule) threshold(inOwn bool) float64 {
	switch {
	case r.Method == BySentences:
		return 0
	case r.Within != 0 && (inOwn || len(r.Earlier) == 0):
		return r.Within
	}
	return r.Threshold
}

// Candidates returns the indexes of the entries that match if they are similar enough; it ignores
// their similarity. unshown reports that entries outside of the subject's conversation are
// compared, and that there is one.
func (r Rule) Candidates(history []Past) (candidates []int, unshown bool) {
	shown := newShown(r.Earlier)
	for i, p := range history {
		inOwn := shown.take(p.Digest)
		if _, comparable := r.compare(p, inOwn); comparable {
			candidates = append(candidates, i)
		}
		unshown = unshown || !inOwn && r.Method == ByEmbeddings && !slices.Contains(r.Further, p.Digest)
	}
	return candidates, unshown
}

// compare returns the similarity of an entry, and whether it can match at all.
func (r Rule) compare(p Past, inOwn bool) (similarity float64, comparable bool) {
	switch {
	case r.LeaveIdentical && p.Identical:
		return 0, false
	case r.Method == BySentences:
		return 1, p.Repeats
	case r.Method == InOwnHistory && !inOwn:
		return 0, false
	}
	return p.Similarity, (p.SameDetails || r.AnyDetails) && !p.OtherItem && !slices.Contains(r.Others, p.Digest)
}

// shown counts the exchanges of a conversation by digest.
type shown map[uint64]int

func newShown(digests []uint64) shown {
	if len(digests) == 0 {
		return nil
	}
	out := make(shown, len(digests))
	for _, d := range digests {
		out[d]++
	}
	return out
}

// take reports whether an exchange is in the conversation, and removes one of its occurrences.
func (s shown) take(digest uint64) bool {
	if s[digest] == 0 {
		return false
	}
	s[digest]--
	return true
}
