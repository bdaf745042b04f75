package details_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/unloop/unloop/schemas/details"
)

func TestTextsOfTheSameDetails(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]string{
		"no marks at all":       {"open the file", "please look at it again"},
		"order":                 {"lines 1 to 20 of main.go", "main.go, lines 20 to 1"},
		"repetition":            {"page 3", "page 3 and page 3"},
		"punctuation around":    {"(see src/a.py).", "src/a.py"},
		"durations":             {"Ran 5 tests in 0.031s", "Ran 5 tests in 12 ms"},
		"times of day":          {"14:30:05 failed", "2026-05-22T14:31:59Z failed"},
		"addresses":             {"<Foo object at 0x7f3a5c001000>", "<Foo object at 0x7f3a5c002220>"},
		"counts of an attempt":  {"Attempt 2: run x_y", "attempt #3: run x_y"},
		"abbreviations":         {"a tool, e.g. a hammer", "a tool such as a hammer"},
		"a colon after a word":  {"Note:this", "Note that"},
		"numbers spelled out":   {"read page 2", "read the second page"},
		"a third time":          {"look at main.go", "look at main.go for the Third time"},
		"keys of JSON are same": {`{"n": 5}`, `{"n":5}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if details.Of(pair[0]) != details.Of(pair[1]) {
				t.Errorf("%q and %q are told apart", pair[0], pair[1])
			}
		})
	}
}

func TestTextsThatMarksTellApart(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]string{
		"pages":          {"read page 2", "read page 3"},
		"offsets":        {`{"offset":20,"limit":20}`, `{"offset":40,"limit":20}`},
		"files":          {"open parser.go", "open lexer.go"},
		"paths":          {"ls src/api", "ls src/web"},
		"snake case":     {"call get_user", "call get_order"},
		"camel case":     {"call getUser", "call getOrder"},
		"a number more":  {"found item 7", "found item 7 and 8"},
		"dates":          {"sales of 2026-05-22", "sales of 2026-05-23"},
		"times to book":  {"book at 14:30", "book at 15:00"},
		"short hex":      {"mask 0xFF", "mask 0xFE"},
		"mail addresses": {"write to ann@example.com", "write to bob@example.com"},
		"ids with colon": {"get user:17", "get user:18"},
		"small numbers":  {"the third chapter", "the fourth chapter"},
		"options":        {"find . -type f", "find . -name f"},
		"an option more": {"tar -x a", "tar -x --keep a"},
		"wildcards":      {"LIKE '%Oslo%'", "LIKE 'Oslo%'"},
		"one has none":   {"read the page", "read page 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if details.Of(pair[0]) == details.Of(pair[1]) {
				t.Errorf("%q and %q are not told apart", pair[0], pair[1])
			}
		})
	}
}

// What is said of a thing and what is denied of it differ, in whatever form.
func TestNegationsTellApart(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		{"A man is slicing an onion", "A man is not slicing an onion"},
		{"A man is slicing an onion", "A man isn't slicing an onion"},
		{"A man is slicing an onion", "No man is slicing an onion"},
		{"The service has started", "The service hasn't started yet"},
		{"Send the report with the figures", "Send the report without the figures"},
		{"Which customers have paid?", "Which customers have not paid?"},
		{"The test can be skipped", "The test cannot be skipped"},
		{"They never met in Oslo", "They met in Oslo"},
		{"Delete the archive", "Don’t delete the archive"},
		{"It is running and it is not failing", "It is not running and it is failing"},
	} {
		if details.Of(pair[0]) == details.Of(pair[1]) {
			t.Errorf("%q and %q are not told apart", pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{
		{"A man is not slicing an onion", "The man isn't slicing onions"},
		{"Do not delete the archive", "Don't delete the archive!"},
		{"List five colors", "That is not valid. That's not correct, it did not work. List five colors"},
		{"I can look for it", "I look for it"},
	} {
		if details.Of(pair[0]) != details.Of(pair[1]) {
			t.Errorf("%q and %q are told apart", pair[0], pair[1])
		}
	}
}

func TestSteadyLeavesOutWhatChangesByItself(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Ran 12 tests in 0.031s, at 14:30:05.": "Ran 12 tests in , at .",
		"page 3 of main.go":                    "page 3 of main.go",
		"attempt 3: get x:4 at 0x7f3a5c001000": "attempt : get x:4 at ",
		"12 seconds":                           " seconds",
		"a second time, the second page":       "a  time, the second page",
	} {
		if got := steady(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestNumbersAlwaysTellApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z ]{0,40}`).Draw(t, "text")
		n := rapid.StringMatching(`[1-9][0-9]{0,8}`).Draw(t, "n")
		m := rapid.StringMatching(`[1-9][0-9]{0,8}`).Filter(func(m string) bool { return m != n }).Draw(t, "m")
		if details.Of(text+" item "+n) == details.Of(text+" item "+m) {
			t.Fatalf("%q: %s and %s are not told apart", text, n, m)
		}
	})
}

func TestHugeTextsTakeTimeInProportion(t *testing.T) {
	t.Parallel()
	for _, piece := range []string{":", "a:", "1:", "T:", ".", "-1.", "x_", "two ", "9 s "} {
		text := strings.Repeat(piece, 1<<20/len(piece))
		if rest := steady(text); details.Of(text) != details.Of(text+" ") || len(rest) > len(text) {
			t.Errorf("a megabyte of %q", piece)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0, "...": 0, "yes": 1, "go on": 2, "don't stop me now": 4, "a,b,c,d,e,f": 6, "再试一次": 4, "one two": 2,
	} {
		if got := details.Words(6, text); got != want {
			t.Errorf("%q: %d words, want %d", text, got, want)
		}
	}
	if got := details.Words(3, "a b c d e"); got != 3 {
		t.Errorf("counting goes on past what is asked: %d", got)
	}
	if got := details.Words(4, "said it", "", "and was answered"); got != 4 {
		t.Errorf("counting ends with the first text: %d", got)
	}
	if got := details.Words(4, "tw", "o"); got != 2 {
		t.Errorf("a word goes on in the next text: %d", got)
	}
}

func FuzzMarks(f *testing.F) {
	for _, text := range []string{"a.b/c:d@e", "14:30:05", "0x", "attempt 3", "µs 3µs", "\xff:\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if details.Of(text) != details.Of(" "+text+" ") {
			t.Errorf("%q: white space around it changes its marks", text)
		}
		if rest := steady(text); len(rest) > len(text) {
			t.Errorf("%q grew to %q", text, rest)
		}
		_ = details.Words(4, text)
	})
}

func TestTextsOnLinesOfTheirOwnAreReadTogether(t *testing.T) {
	t.Parallel()
	texts := []string{"Attempt 2 ran 0.03s at 14:30:05", "", "see <Foo at 0x7f3a5c001000> of parser.go, in 12 ms", "and page 3"}
	sum, rest := details.Read(texts...)
	if want := details.Of(strings.Join(texts, "\n")); sum != want {
		t.Errorf("sum %x, want %x", sum, want)
	}
	for i, text := range texts {
		if want := steady(text); rest[i] != want {
			t.Errorf("text %d became %q, want %q", i, rest[i], want)
		}
	}
}

// steady returns the text as details.Read does.
func steady(text string) string {
	_, texts := details.Read(text)
	return texts[0]
}
