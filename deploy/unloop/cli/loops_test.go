package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/excerpts"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/kit/access"
	"github.com/unloop/unloop/schemas/openloop"
)

var noon = time.Date(2026, 5, 22, 12, 0, 0, 0, time.UTC)

func loop(id, policy, action string) openloop.Record {
	return openloop.Record{Data: event.Data{
		LoopID: id, Policy: policy, Action: action, Detector: "tool", Mode: event.ModeEnforce, HitCount: 5, Session: "5e55107" + id,
		FirstSeen: noon.Add(-time.Hour), LastSeen: noon.Add(-time.Minute),
		Findings: []event.Finding{{Detector: "tool", Action: action, Tool: "read_file", HitCount: 5}},
	}, Tenant: "acme", Ends: noon.Add(time.Minute)}
}

func TestLoopsAreFoundByTheBeginningOrTheEndOfTheirIds(t *testing.T) {
	t.Parallel()
	loops := []openloop.Record{loop("abc1", "p", "hint"), loop("abc2", "p", "hint"), loop("abc", "p", "hint"), loop("x", "p", "hint")}
	for id, want := range map[string]string{"abc1": "abc1", "abc": "abc", "x": "x", "2": "abc2"} {
		if got, err := findLoop(loops, id); err != nil || got.LoopID != want {
			t.Errorf("%s is %q, %v", id, got.LoopID, err)
		}
	}
	for id, want := range map[string]string{"ab": "3 loops have an id that begins or ends with ab: abc1, abc2, abc", "y": "no loop has the id y", "": "no loop has the id"} {
		if _, err := findLoop(loops, id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestFiltersSelectLoops(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		filter loopFilter
		want   string
	}{
		"none":              {loopFilter{}, "abc"},
		"a policy":          {loopFilter{Policy: []string{"p"}}, "ab"},
		"one of two":        {loopFilter{Policy: []string{"p", "q"}}, "abc"},
		"an action":         {loopFilter{Action: []string{"reject"}}, "bc"},
		"both":              {loopFilter{Policy: []string{"p"}, Action: []string{"reject"}}, "b"},
		"a tenant":          {loopFilter{Tenant: []string{"globex"}}, ""},
		"a detector":        {loopFilter{Detector: []string{"tool"}}, "abc"},
		"part of a session": {loopFilter{Session: []string{"5e55107c"}}, "c"},
	} {
		got := ""
		for _, l := range c.filter.filter([]openloop.Record{loop("a", "p", "hint"), loop("b", "p", "reject"), loop("c", "q", "reject")}) {
			got += l.LoopID
		}
		if got != c.want || c.filter.isSet() != (name != "none") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestLoopsLeaveTheListWhenTheirWindowIsOver(t *testing.T) {
	t.Parallel()
	ended, unknown := loop("ended", "p", "hint"), loop("unknown", "p", "hint")
	ended.Ends, unknown.Ends = noon, time.Time{}
	loops := stillOpen([]openloop.Record{loop("a", "p", "hint"), ended, unknown}, noon)
	if len(loops) != 2 || loops[0].LoopID != "a" || loops[1].LoopID != "unknown" {
		t.Errorf("open are %v", loops)
	}
}

func TestLoopsFitNarrowTerminals(t *testing.T) {
	t.Parallel()
	all := []openloop.Record{loop("Ml3bpvDu2UiNuixTTQ444d", "default", "reject")}
	for width, want := range map[int]string{
		0:  "SESSION",
		80: "read_file",
		56: "LAST SEEN",
	} {
		var out strings.Builder
		if err := loopTable(all, noon).Print(&out, terminal.Screen{Width: width}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("at %d columns no %s:\n%s", width, want, &out)
		}
		for line := range strings.Lines(out.String()) {
			if width > 0 && len([]rune(line)) > width+1 {
				t.Errorf("a line is wider than %d columns: %q", width, line)
			}
		}
	}
}

func TestLoopsAreToldInWords(t *testing.T) {
	t.Parallel()
	for _, k := range append(finding.Catalogue(), finding.Kind{Detector: "of a newer detector"}) {
		d := event.Data{
			LoopID: "a", Detector: k.Detector, Action: "reject", HitCount: 5, WindowSeconds: 60,
			Findings: []event.Finding{{Detector: k.Detector, Rule: k.Rule, Action: "reject", Tool: "a,b"}},
		}
		var out strings.Builder
		showLoop(&printer{w: &out}, &openloop.Record{Data: d}, time.Now())
		if want := d.Facts().Text(); !strings.Contains(out.String(), "found      "+want+"\n") {
			t.Errorf("%s %s: want %q in\n%s", k.Detector, k.Rule, want, &out)
		}
	}
}

func TestReleaseWantsIdsOrAll(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--policy", "p"}, {"x", "--all"}, {"x", "--policy", "p"}} {
		code, _, errOut := command(t, append([]string{"loops", "release"}, args...)...)
		if code != 1 || !strings.Contains(errOut, "--all") {
			t.Errorf("%v: code %d, %s", args, code, errOut)
		}
	}
}

// The rounds of a loop are read with the admin port's key, and only those of that loop.
func TestRoundsAreReadWithAKey(t *testing.T) {
	t.Parallel()
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(access.Header) != "k" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if err := json.NewEncoder(w).Encode(excerpts.Loop{LoopID: "l", At: time.Now(), Prompt: r.URL.Path}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(admin.Close)
	c := loopsShowCmd{Admin: admin.URL, AdminKey: "k"}
	if got := c.rounds(t.Context(), "l"); got == nil || got.Prompt != "/api/v1/loops/l/rounds" {
		t.Errorf("with the key: %+v", got)
	}
	if got := c.rounds(t.Context(), "other"); got != nil {
		t.Errorf("of another loop: %+v", got)
	}
	c.AdminKey = ""
	if got := c.rounds(t.Context(), "l"); got != nil {
		t.Errorf("without a key: %+v", got)
	}
}
