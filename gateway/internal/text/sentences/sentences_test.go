package sentences_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/sentences"
)

func of(text string) sentences.List { return sentences.Of([]byte(text), false) }

func TestTextsOfTheSameSentences(t *testing.T) {
	t.Parallel()
	const prompt = "Extract the vendor and the total. Return them as JSON."
	for name, text := range map[string]string{
		"case and marks":      "EXTRACT the vendor, and the total!\n\n  return them as JSON",
		"a complaint before":  "That wasn't valid JSON. Try again: " + prompt,
		"a complaint behind":  prompt + "\n\nSorry, that's still not correct. Please try again.",
		"complaints at both":  "Your last answer was wrong.\n" + prompt + " Retry!",
		"the same many times": strings.Repeat("That wasn't valid JSON. Try again: ", 9) + prompt,
		"attempts":            "Attempt 3:\n" + prompt,
	} {
		if !slices.Equal(of(text), of(prompt)) {
			t.Errorf("%s: %q is told apart", name, text)
		}
	}
}

func TestTextsOfOtherSentences(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		{"Summarize the contract.", "Summarize the letter."},
		{"Translate: please", "Translate: sorry"},
		{`Use "Try again." in a sentence.`, `Use "Invalid answer." in a sentence.`},
		{"Translate “Try again.”", "Translate “Wrong format.”"},
		{"What is it about?", "Who is it about?"},
		{"You left out the brace. List five colors.", "List five colors."},
		{"At 14:30:05", "At 14:30:09"},
		{"請把這份報告翻譯成英文。", "請把這封郵件翻譯成英文。"},
		{"a + b", "a - b ÷"},
	} {
		if slices.Equal(of(pair[0]), of(pair[1])) {
			t.Errorf("%q and %q are not told apart", pair[0], pair[1])
		}
	}
	if !slices.Equal(sentences.Of([]byte("Ran in 0.03s"), true), sentences.Of([]byte("Ran in 1.07s"), true)) {
		t.Error("numbers are not masked")
	}
}

func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, "Sentence number %d is here. ", i)
	}
	long := b.String()
	for _, size := range []int{100, 10_000, 60_000, 200_000, len(long)} {
		text := long[:size]
		if n := len(of(text)); n == 0 || n > 256 {
			t.Errorf("%d numbers of %d bytes", n, size)
		}
		if changed := text[:size/2] + " What of this?" + text[size/2:]; slices.Equal(of(text), of(changed)) {
			t.Errorf("a sentence in the middle of %d bytes changes nothing", size)
		}
	}
	if n := len(of(strings.Repeat("word ", 50_000))); n > 256 {
		t.Errorf("%d numbers of a text without an end", n)
	}
	if len(of("")) != 0 || len(of("...\n?!")) != 0 {
		t.Error("a text without words has sentences")
	}
}

func FuzzOf(f *testing.F) {
	f.Add([]byte("That wasn't valid. Try\xff again: 14:30 `x`"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list := sentences.Of(text, false)
		if len(list) > 256 || len(list.Bytes()) != 4*len(list) {
			t.Errorf("%d numbers, %d bytes", len(list), len(list.Bytes()))
		}
	})
}

func BenchmarkOf(b *testing.B) {
	text := []byte(strings.Repeat("The harbour of Lisbon was financed by the ledger of a tenant, before it was measured. ", 200))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		sentences.Of(text, false)
	}
}

// A text that goes on in the middle of a sentence has the earlier text among its beginnings;
// one to which a sentence is added, or whose words change, has not.
func TestBeginningsAreThoseOfOpenSentences(t *testing.T) {
	t.Parallel()
	goesOn := func(earlier, later string) bool {
		e, l := of(earlier), of(later)
		last := len(e) - 1
		return last < len(l) && !slices.Equal(e, l) && slices.Equal(e[:last], l[:last]) && slices.Contains(sentences.Beginnings([]byte(later)), e[last])
	}
	for _, tt := range []struct {
		earlier, later string
		want           bool
	}{
		{"book a table", "book a table for two", true},
		{"Hello there. Book a", "Hello there. Book a table, please", true},
		{strings.Repeat("word after word ", 20), strings.Repeat("word after word ", 20) + "and on", true},
		{"Hello there. Book a tab", "Hello there. Book a table, please", true},
		{"Buche einen grö", "Buche einen größeren Tisch", true},
		{"book a table", "book a table", false},
		{"book a table", "Book a table. Now!", false},
		{"book a table", "book the table for two", false},
	} {
		if got := goesOn(tt.earlier, tt.later); got != tt.want {
			t.Errorf("%q, then %q: %v, want %v", tt.earlier, tt.later, got, tt.want)
		}
	}
	whole := func(text string) bool {
		l := of(text)
		return slices.Contains(sentences.Beginnings([]byte(text)), l[len(l)-1])
	}
	if !whole("Hello. Book a table") || !whole("Hello. Book a table ") || whole("Hello. Book a table. ") || whole("はい。") {
		t.Error("the whole of the last sentence is a beginning if nothing ends it, and only then")
	}
	if n := len(sentences.Beginnings([]byte(strings.Repeat("Many words are here in one row. ", 4000)))); n != 192 {
		t.Errorf("%d beginnings, want 192", n)
	}
}
