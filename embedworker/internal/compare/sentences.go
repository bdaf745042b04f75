package compare

import (
	"encoding/binary"
	"slices"
)

// Sentences describe a text by one number for each of its sentences, as
// semanticpb.Trace has them: the lower 8 bits are the number of words.
type Sentences []uint32

// SentencesOf reads the bytes of a trace; a broken rest is left out.
func SentencesOf(b []byte) Sentences {
	out := make(Sentences, len(b)/4)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return out
}

// Bytes is what SentencesOf reads; nil for none.
func (s Sentences) Bytes() []byte {
	var out []byte
	for _, n := range s {
		out = binary.LittleEndian.AppendUint32(out, n)
	}
	return out
}

// Repeats reports whether a text says what an earlier one said, and no more: the
// two differ at most in that sentences of theirs come again. It is false where
// either is unknown.
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

// frameWords is the least number of shared words that make a frame.
const frameWords = 20

// OtherItem reports whether two texts share a frame, such as a document or fixed
// instructions, that is at least half of the newer one, and differ in sentences of
// their own: another item was put into the same frame.
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

// goesOn reports whether a text goes on in the middle of the sentence with which an earlier
// one ended, or with a sentence that is open behind it, given the beginnings of its
// sentences: somebody types or speaks.
func (s Sentences) goesOn(earlier, beginnings Sentences) bool {
	n, whole := len(earlier), len(earlier)-1
	if n > 0 && n < len(s) && slices.Equal(s[:n], earlier) && slices.Contains(beginnings, s[len(s)-1]) {
		return true
	}
	return whole >= 0 && !slices.Equal(s, earlier) && whole < len(s) && slices.Equal(s[:whole], earlier[:whole]) && slices.Contains(beginnings, earlier[whole])
}

// shared counts the words of the sentences that other has too, and of those that
// it has not.
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
