package compare

import (
	"encoding/binary"
	"slices"
)

// Sentences has a hash for each sentence of a text, as semanticpb.Trace does. The lower 8 bits
// are the number of words.
type Sentences []uint32

// SentencesOf decodes the bytes of a trace, without an incomplete rest.
func SentencesOf(b []byte) Sentences {
	out := make(Sentences, len(b)/4)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return out
}

// Bytes encodes sentences for SentencesOf; nil for none.
func (s Sentences) Bytes() []byte {
	var out []byte
	for _, n := range s {
		out = binary.LittleEndian.AppendUint32(out, n)
	}
	return out
}

// Repeats reports whether a text has the same sentences as an earlier one: they differ at most
// in sentences that occur again. It is false if either is unknown.
func (s Sentences) Repeats(earlier Sentences) bool {
	if len(s) == 0 || len(earlier) == 0 {
		return false
	}
	return slices.Equal(s, earlier) || sameSet(s, earlier) && (within(s, earlier) || within(earlier, s))
}

// sameSet reports whether two lists have the same members.
func sameSet(a, b Sentences) bool {
	x, y := slices.Clone(a), slices.Clone(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(slices.Compact(x), slices.Compact(y))
}

// within reports whether part is whole with some elements dropped.
func within(part, whole Sentences) bool {
	for _, n := range whole {
		if len(part) > 0 && part[0] == n {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// frameWords is the smallest number of words in a frame.
const frameWords = 20

// OtherItem reports whether two texts have different items in the same frame, such as a document
// or fixed instructions: they share at least half of the newer one, and each has sentences of
// its own.
func (s Sentences) OtherItem(earlier Sentences) bool {
	if slices.Equal(s, earlier) { // as in all turns of an agent on one task
		return false
	}
	common, own := s.shared(earlier)
	if common < frameWords || common < own || own == 0 {
		return false
	}
	_, others := earlier.shared(s)
	return others > 0
}

// goesOn reports whether a text continues an earlier one that was still being typed or spoken:
// the earlier one ended within a sentence, or the text ends with an incomplete one. beginnings
// are those of the text's sentences.
func (s Sentences) goesOn(earlier, beginnings Sentences) bool {
	n, whole := len(earlier), len(earlier)-1
	if n > 0 && n < len(s) && slices.Equal(s[:n], earlier) && slices.Contains(beginnings, s[len(s)-1]) {
		return true
	}
	return whole >= 0 && !slices.Equal(s, earlier) && whole < len(s) && slices.Equal(s[:whole], earlier[:whole]) && slices.Contains(beginnings, earlier[whole])
}

// shared counts the words in sentences that other has, too, and in those that it does not have.
func (s Sentences) shared(other Sentences) (common, own int) {
	set := make(map[uint32]bool, len(other))
	for _, n := range other {
		set[n] = true
	}
	for _, n := range s {
		if words := int(n & 0xff); set[n] {
			common += words
		} else {
			own += words
		}
	}
	return common, own
}
