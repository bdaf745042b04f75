package repair_test

import (
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
)

// items reads a flat history: "x()" is a call, "x=1" the result 1 of the call x, and
// any other word something else.
func items(line string) (out []repair.Item) {
	for word := range strings.FieldsSeq(line) {
		it := repair.Item{Raw: []byte(word)}
		if id, ok := strings.CutSuffix(word, "()"); ok {
			it.Call, it.ID = true, id
		}
		if id, answer, ok := strings.Cut(word, "="); ok {
			it.Result, it.ID, it.Answer = true, id, splice.Quote(answer)
		}
		out = append(out, it)
	}
	return out
}

func TestFlatHistoriesAreRepaired(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line    string
		partial bool
		want    string
		report  repair.Report
	}{
		"sound":                         {"hi x() y() y=1 x=2", false, "hi x() y() y=1 x=2", repair.Report{}},
		"nothing":                       {"", false, "", repair.Report{}},
		"an orphan":                     {"hi x=1", false, "hi", repair.Report{Orphans: 1}},
		"an orphan of a call elsewhere": {"ref x=1", true, "ref x=1", repair.Report{}},
		"a lost result":                 {"x() hi", false, "x() x=lost hi", repair.Report{Synthetic: 1}},
		"lost ones of parallel calls":   {"x() y() z() y=1", false, "x() y() z() x=lost z=lost y=1", repair.Report{Synthetic: 2}},
		"a duplicate":                   {"x() x=1 x=2", false, "x() x=1", repair.Report{Duplicates: 1}},
		"a final one after a pending":   {"x() x=pending x=2", false, "x() x=2", repair.Report{Duplicates: 1}},
		"two pending ones":              {"x() x=pending x=queued", false, "x() x=pending", repair.Report{Duplicates: 1}},
		"an id that is used again":      {"x() x=1 x() x=2", false, "x() x=1 x() x=2", repair.Report{}},
	} {
		raw, report := repair.Flat(items(c.line), c.partial, func(call *repair.Item) []byte { return []byte(call.ID + "=lost") })
		var words []string
		for _, r := range raw {
			words = append(words, string(r))
		}
		if got := strings.Join(words, " "); got != c.want || report != c.report {
			t.Errorf("%s: %q (%v), want %q (%v)", name, got, report, c.want, c.report)
		}
	}
}

func TestTheFirstTextOfAListSaysWhetherAResultIsPending(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]bool{
		`[{"type":"text","text":"pending"},{"text":"done"}]`: true, `["x",{"type":"image"},{"text":"queued"}]`: true,
		`[{"text":"done"},{"text":"pending"}]`: false, `[]`: false, `[{"text":`: false, `{"status":"pending"}`: false, `5`: false, ``: false,
	} {
		if repair.Pending([]byte(content)) != want {
			t.Errorf("%s: want %v", content, want)
		}
	}
}
