package fingerprint

import (
	"bytes"
	"slices"
)

// Chain returns the digest of a sequence that ends in item, given the digest of
// the sequence before it. Start with the zero Digest. Two histories have the
// same chain digest at a position when they agree up to there.
func Chain(before, item Digest) Digest {
	var b [32]byte
	copy(b[:16], before[:])
	copy(b[16:], item[:])
	return sum(b[:], seedChain)
}

// RoundKey returns the key of a round of tool calls in a chain: a hash of the set of its calls,
// without their order and number. Results are not part of it, since clients clear old ones to
// save space, and neither are call ids.
func RoundKey(calls []Digest) Digest {
	if len(calls) == 1 {
		return sum(calls[0][:], seedRound)
	}
	sorted := slices.Clone(calls)
	slices.SortFunc(sorted, func(a, b Digest) int { return bytes.Compare(a[:], b[:]) })
	sorted = slices.Compact(sorted)
	b := make([]byte, 0, len(sorted)*len(Digest{}))
	for i := range sorted {
		b = append(b, sorted[i][:]...)
	}
	return sum(b, seedRound)
}

// HumanKey returns the key of a human message in a chain, given the digest of its
// text.
func HumanKey(text Digest) Digest { return sum(text[:], seedHuman) }

// Said returns the digest that identifies a human message within its session, given its
// text in the form for comparison.
func Said(text []byte) Digest { return sum(text, seedSaid) }
