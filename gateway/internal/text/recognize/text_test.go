package recognize_test

import (
	"bytes"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/schemas/fingerprint"
)

func TestWhatNobodySeesInAPromptDoesNotMatter(t *testing.T) {
	t.Parallel()
	var c recognize.Hasher
	want := c.Text([]byte("fix the émigré bug"))
	for _, same := range []string{" Fix the Émigré BUG\n", "\tFIX THE ÉMIGRÉ BUG", "fix the émigré bug", "fix the  émigré bug", "fix\tthe\n\n émigré\u00a0bug",
		"fi\u200bx the\u2060 émi\u00adgré\ufe0f bug\u200d", "fix the \u200b émigré bug", "\ufefffix the émigré bug\x00"} {
		if c.Text([]byte(same)) != want {
			t.Errorf("%q must be the same prompt", same)
		}
	}
	for _, other := range []string{"fixthe émigré bug", "fix the emigre bug", "", "fix the émigré bug."} {
		if c.Text([]byte(other)) == want {
			t.Errorf("%q must be another prompt", other)
		}
	}
}

func TestAClockInASystemPromptIsRemoved(t *testing.T) {
	t.Parallel()
	var c recognize.Hasher
	same := func(a, b string) bool { return c.System([]byte(a)) == c.System([]byte(b)) }
	for _, pair := range [][2]string{
		{"You help. It is 2026-05-22T14:30:00Z.", "you help. it is 2026-05-22T14:31:07.123Z.\n"},
		{"Time: Friday, May 22, 2026 at 2:30 PM UTC", "Time: Friday, May 22, 2026 at 2:31 PM UTC"},
		{"Time: 14:30", "Time: 14:31"},
		{"now=1779460200", "now=1779460201"},
		{"Session 123e4567-e89b-12d3-a456-426614174000", "Session 00000000-e89b-12d3-a456-426614174fff"},
		{"Fri, 22 May 2026 14:30:00 GMT", "Fri, 22 May 2026 14:30:09 GMT"},
	} {
		if !same(pair[0], pair[1]) {
			t.Errorf("%q and %q must be the same", pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{
		{"You have 3 tries", "You have 4 tries"}, {"Answer within 5 seconds", "Answer within 6 seconds"}, {"v1.2.3", "v1.2.4"},
	} {
		if same(pair[0], pair[1]) {
			t.Errorf("%q and %q must differ", pair[0], pair[1])
		}
	}
}

func TestTextFoldsAsTheStandardLibraryDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SliceOf(rapid.Byte()).Draw(t, "s")
		if rapid.Bool().Draw(t, "valid") {
			s = []byte(rapid.String().Draw(t, "text"))
		}
		got := recognize.AppendText([]byte("kept"), s)
		if !bytes.HasPrefix(got, []byte("kept")) {
			t.Fatalf("what stood before is lost: %q", got)
		}
		if bytes.ContainsFunc(s, formats) || !utf8.Valid(s) {
			return
		}
		if want := bytes.Join(bytes.Fields(bytes.ToLower(bytes.Map(seen, s))), []byte(" ")); !bytes.Equal(got[4:], want) {
			t.Fatalf("got %q, want %q", got[4:], want)
		}
	})
}

// formats reports whether a character may be one that nobody sees.
func formats(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// seen drops controls.
func seen(r rune) rune {
	if unicode.IsControl(r) && !unicode.IsSpace(r) {
		return -1
	}
	return r
}

func TestDigestsOfTexts(t *testing.T) {
	t.Parallel()
	var h recognize.Hasher
	for name, c := range map[string]struct {
		digest func([]byte) fingerprint.Digest
		a, b   string
		same   bool
	}{
		"results in another case":   {h.Result, " OK\n", "ok", true},
		"results with other spaces": {h.Result, "a  b", "a b", false},
		"lines with other spaces":   {h.Lines, "a  b\n\nc", "A b\nc", true},
		"lines indented":            {h.Lines, "a\n  b", "a\n    b", false},
		"messages with a count":     {recognize.Said, "You have 3 tries left", "you have 17 tries  left", true},
		"other messages":            {recognize.Said, "You have 3 tries left", "You have no tries left", false},
	} {
		if same := c.digest([]byte(c.a)) == c.digest([]byte(c.b)); same != c.same {
			t.Errorf("%s: same is %v, want %v", name, same, c.same)
		}
	}
}

func TestLinesKeepTheirIndentation(t *testing.T) {
	t.Parallel()
	got := string(recognize.AppendLines(nil, []byte(" \n  If x:  \r\n \n\n\tgo   ON\u200b \n    a\tb\n\n ")))
	if want := "if x:\n\tgo on\n    a b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func BenchmarkText(b *testing.B) {
	text := bytes.Repeat([]byte("You are an autonomous Programmer, working in the shell. Today is 2026-05-22T14:30:00Z. "), 1000)
	var c recognize.Hasher
	b.Run("prompt", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			c.Text(text)
		}
	})
	b.Run("system", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			c.System(text)
		}
	})
}
