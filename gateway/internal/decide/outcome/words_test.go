package outcome

import (
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
)

func TestMessagesSayWhatWasFoundInWords(t *testing.T) {
	t.Parallel()
	for _, k := range append(finding.Catalogue(), finding.Kind{Detector: "of a newer detector"}) {
		f := &checkpb.Finding{
			Policy: "p", Detector: k.Detector, Rule: k.Rule, Tool: "a,b", HitCount: 6, Threshold: 5, WindowSeconds: 60,
			Action: checkpb.Action_ACTION_REJECT, LoopId: "L1",
		}
		want := f.Facts().Text()
		message := nowhere.message(f, 0)
		if !strings.HasPrefix(message, "Stopped by Unloop: "+want+" (recursive_loop_detected; detector "+k.Detector) {
			t.Errorf("%s %s: %s, want %q", k.Detector, k.Rule, message, want)
		}
		if !strings.HasSuffix(message, "See `unloop loops show L1`, let through with `unloop loops release L1`.") {
			t.Errorf("%s %s: %s", k.Detector, k.Rule, message)
		}
		if answer := nowhere.synthetic(f); !strings.HasPrefix(answer, "Stopped by Unloop: "+want+" (recursive_loop_detected). The model was not asked. "+k.Advice) {
			t.Errorf("%s %s: says %s", k.Detector, k.Rule, answer)
		}
	}
}

// A message that comes back as a tool's result is known by the code in its beginning,
// however long the names of the tools are.
func TestTheCodeStandsNearTheBeginning(t *testing.T) {
	t.Parallel()
	f := &checkpb.Finding{
		Policy: "p", Detector: finding.Cycle, Rule: "cycle", Tool: strings.Repeat("größer_name,", 40), HitCount: 4_000_000_000, Action: checkpb.Action_ACTION_REJECT,
	}
	for _, text := range []string{nowhere.message(f, 0), nowhere.synthetic(f)} {
		if !rounds.Marked([]byte(`{"error":{"message":"` + text)) {
			t.Errorf("the code comes late in %s", text)
		}
	}
}

func TestMessagesNameTheirLoopAndNoOther(t *testing.T) {
	t.Parallel()
	f := foundWith(checkpb.Action_ACTION_BREAK)
	f.Detector = finding.Tool
	if got := nowhere.message(f, 0); !strings.Contains(got, " All requests are refused until a human sends a message or the loop is released. See `unloop loops show l`") {
		t.Errorf("a break says %s", got)
	}
	f.LoopId = ""
	if got := nowhere.message(f, 0); strings.Contains(got, "unloop loops") {
		t.Errorf("a loop without an id says %s", got)
	}
	f = foundWith(checkpb.Action_ACTION_WARN)
	if got := nowhere.message(f, 0); strings.Contains(got, "Stopped") || strings.Contains(got, "release") {
		t.Errorf("a warning says %s", got)
	}
}

// nowhere is where there is no dashboard.
var nowhere Look

func TestMessagesSayWhereToLook(t *testing.T) {
	t.Parallel()
	stopped, warned := foundWith(checkpb.Action_ACTION_REJECT), foundWith(checkpb.Action_ACTION_WARN)
	for name, c := range map[string]struct {
		look Look
		f    *checkpb.Finding
		want string
	}{
		"commands":              {Look{}, stopped, " See `unloop loops show l`, let through with `unloop loops release l`."},
		"a page, too":           {Look{Page: "http://127.0.0.1:8081"}, stopped, " See http://127.0.0.1:8081/#loop=l or `unloop loops show l`, let through with `unloop loops release l`."},
		"a page alone":          {Look{Page: "http://127.0.0.1:41234/", PageAlone: true}, stopped, " See http://127.0.0.1:41234/#loop=l, where it can be released."},
		"a page for a warning":  {Look{Page: "https://unloop.example.com/x", PageAlone: true}, warned, " See https://unloop.example.com/x/#loop=l."},
		"no page that is alone": {Look{PageAlone: true}, warned, " See `unloop loops show l`."},
	} {
		if got := c.look.message(c.f, 0); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
