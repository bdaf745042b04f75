package wordpiece

import (
	"sync"
	"unicode"
)

// What a character is to the normalizer and the word splitter. One character
// may be several of these.
const (
	classControl   uint8 = 1 << iota // dropped by text cleaning
	classSpace                       // separates words
	classPunct                       // a word of its own
	classCJK                         // set apart by spaces
	classAccent                      // nonspacing mark
	classCased                       // has case, for the final sigma
	classIgnorable                   // skipped when looking for a cased neighbour
)

// classTable holds the classes of the basic plane: 64 KB, so that text in any
// living script costs one load a character.
type classTable [1 << 16]uint8

// classes is built on first use from the unicode package's tables.
var classes = sync.OnceValue(buildClasses)

func buildClasses() *classTable {
	t := new(classTable)
	for _, c := range classRanges {
		for _, table := range c.tables {
			t.mark(table, c.class)
		}
		for _, r := range c.extra {
			t[r] |= c.class
		}
	}
	for r := '!'; r <= '~'; r++ {
		// ASCII symbols split words too, though Unicode calls some of them symbols.
		if t[r]&classCased == 0 && (r < '0' || r > '9') {
			t[r] |= classPunct
		}
	}
	for _, keep := range "\t\n\r" {
		t[keep] &^= classControl
	}
	t[0xFFFD] |= classControl
	return t
}

// classRanges says where each class comes from. The white space is
// ECMAScript's, whose U+FEFF is a format character first; the ideographs are
// the blocks of the original BERT code that the reference sees, which leaves
// out those beyond the basic plane.
var classRanges = []struct {
	class  uint8
	tables []*unicode.RangeTable
	extra  []rune
}{
	{classControl, []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs}, nil},
	{classSpace, []*unicode.RangeTable{unicode.Zs, unicode.Zl, unicode.Zp}, []rune{'\t', '\n', '\v', '\f', '\r', 0xFEFF}},
	{classPunct, []*unicode.RangeTable{unicode.P}, nil},
	{classCJK, []*unicode.RangeTable{ideographs}, nil},
	{classAccent, []*unicode.RangeTable{unicode.Mn}, nil},
	{classCased, []*unicode.RangeTable{unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase}, nil},
	// The extra ones are the letters' inner punctuation of Unicode's word
	// breaking (MidLetter, MidNumLet, Single_Quote).
	{classIgnorable, []*unicode.RangeTable{unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk}, []rune{
		'\'', '.', ':', 0xB7, 0x387, 0x55F, 0x5F4, 0x2018, 0x2019, 0x2024, 0x2027,
		0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A,
	}},
}

var ideographs = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x3400, Hi: 0x4DBF, Stride: 1},
	{Lo: 0x4E00, Hi: 0x9FFF, Stride: 1},
	{Lo: 0xF900, Hi: 0xFAFF, Stride: 1},
}}

func (t *classTable) mark(table *unicode.RangeTable, class uint8) {
	for _, r := range table.R16 {
		for c := int(r.Lo); c <= int(r.Hi); c += int(r.Stride) {
			t[c] |= class
		}
	}
}

// of returns the classes of r, searching the tables beyond the basic plane.
func (t *classTable) of(r rune) uint8 {
	if r >= 0 && int(r) < len(t) {
		return t[r]
	}
	var class uint8
	for _, c := range classRanges {
		if unicode.In(r, c.tables...) {
			class |= c.class
		}
	}
	return class
}
