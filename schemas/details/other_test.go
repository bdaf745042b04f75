package details

import (
	"strings"
	"testing"
)

func TestOtherItem(t *testing.T) {
	t.Parallel()
	task := func(module string) string {
		return `task {"description":"review ` + module + `","prompt":"Review the module ` + module + ` and fix what is wrong."}`
	}
	for name, c := range map[string]struct {
		a, b string
		want bool
	}{
		"one word":                        {"Review the module alpha.", "Review the module beta.", true},
		"one word wherever it stands":     {task("alpha"), task("beta"), true},
		"a part of it is the same":        {"Review alpha now.", "Review alphabet now.", true},
		"a few words at one place":        {"What is the capital of New Zealand?", "What is the capital of Peru?", true},
		"the last":                        {"Tell me of whales", "Tell me of sharks", true},
		"all":                             {"whales", "sharks", true},
		"another script":                  {"Напиши про китов.", "Напиши про акул.", true},
		"the same":                        {"Review the module alpha.", "Review the module alpha.", false},
		"other case":                      {"Review the module alpha.", "review the module Alpha.", false},
		"something more":                  {"Review the module.", "Review the module alpha.", false},
		"two words, apart":                {"Review the module alpha of Ann.", "Review the module beta of Bob.", false},
		"two items in turn":               {"Move alpha to beta.", "Move beta to alpha.", false},
		"politeness":                      {"Please write the report.", "Kindly write the report.", false},
		"a word for politeness":           {"Please write the report.", "Quarterly write the report.", false},
		"a sentence":                      {"Write the report. Use a table of four columns.", "Write the report. Cite each of your sources.", false},
		"another order":                   {"Compare the plan and the draft.", "Compare the draft and the plan.", false},
		"nothing":                         {"", "whales", false},
		"signs alone":                     {"ok?", "ok!", false},
		"a frame, and a word in another":  {"Fix it: the build fails.", "Fix it: the build breaks down badly today.", false},
		"a long text with one other word": {strings.Repeat("word ", 5000) + "alpha", strings.Repeat("word ", 5000) + "beta", true},
	} {
		if OtherItem(c.a, c.b) != c.want || OtherItem(c.b, c.a) != c.want {
			t.Errorf("%s: %t, want %t", name, !c.want, c.want)
		}
	}
}
