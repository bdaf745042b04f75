package render

import (
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/finding"
)

func TestSummariesSayWhatRepeats(t *testing.T) {
	t.Parallel()
	for _, k := range append(finding.Catalogue(), finding.Kind{Detector: "of a newer detector"}) {
		e := Example().Events[0]
		e.Data.Detector, e.Data.HitCount = k.Detector, 1234
		e.Data.Findings = []event.Finding{{Detector: k.Detector, Rule: k.Rule, Action: e.Data.Action, Tool: "read\nfile"}}
		want := strings.ReplaceAll(e.Data.Facts().Sentence(), "\n", " ")
		if got := Summary(&e); got != want || !strings.HasSuffix(got, ".") {
			t.Errorf("%s %s: got %q, want %q", k.Detector, k.Rule, got, want)
		}
	}
}

func TestSummariesQuoteTheExcerpt(t *testing.T) {
	t.Parallel()
	e := Example().Events[0]
	e.Data.Findings = []event.Finding{{Detector: "tool", Excerpt: "other"}, {Detector: "prompt", Excerpt: "Fix the\n  test. " + strings.Repeat("x", 500)}}
	want := "The same prompt 6 times within 60 seconds: “Fix the test. xxx"
	if got := Summary(&e); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "x…”") || len([]rune(got)) > 300 {
		t.Errorf("got %q", got)
	}
	e.Data.Findings = e.Data.Findings[:1]
	if got := Excerpt(&e); got != "other" {
		t.Errorf("the only excerpt is %q", got)
	}
}

func TestTitles(t *testing.T) {
	t.Parallel()
	m := Example()
	e := m.Events[0]
	want := func(want string) {
		t.Helper()
		if got := Title(m); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	want("An agent of acme goes in circles and is stopped: the same prompt 6 times within 60 seconds, policy agent-tools")
	m.Events[0].Data.Action, m.Events[0].Data.Mode = "reject", event.ModeShadow
	want("An agent of acme goes in circles and is only watched: the same prompt 6 times within 60 seconds, policy agent-tools")
	e.Type = event.Resolved
	m.Events = []event.Event{e}
	want("Loop ended: the same prompt 6 times within 60 seconds, policy agent-tools of acme")
	m.Events, m.Key = append(m.Events, e), "tenant=acme"
	want("2 loops ended: tenant=acme")
	m.Events = append(m.Events, Example().Events...)
	want("1 loop, and 2 that ended: tenant=acme")
}

func TestFieldsAreCleanAndBounded(t *testing.T) {
	t.Parallel()
	e := Example().Events[0]
	e.TenantID, e.Data.Model = "a\nb\u202ec\x00", strings.Repeat("😀", 5000)
	for _, f := range Fields(&e) {
		if strings.ContainsAny(f.Value, "\n\x00\u202e") || len([]rune(f.Value)) > maxValue {
			t.Errorf("%s is %q", f.Name, f.Value)
		}
	}
}

func TestCutCountsAsServicesDo(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "abc", "ääää", "😀😀😀", "a😀b😀c", strings.Repeat("x", 50)} {
		for n := 1; n < 12; n++ {
			got := Cut(s, n)
			if units := len(utf16.Encode([]rune(got))); units > n || strings.ContainsRune(got, 0xfffd) {
				t.Errorf("Cut(%q, %d) is %q", s, n, got)
			}
			if len(utf16.Encode([]rune(s))) <= n && got != s {
				t.Errorf("Cut(%q, %d) is %q", s, n, got)
			}
		}
	}
}

func TestFaultsOfTemplates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{{":                       "is no Go template",
		"{{nope}}":                 "is no Go template",
		"{{.Nope}}":                "fails with an example",
		"{{env \"HOME\"}}":         "is no Go template",
		"{{index .Events 5}}":      "fails with an example",
		strings.Repeat("x", 20000): "at most 16384",
		`{{range $i, $e := .Events}}{{range $j := json $e | len}}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{{end}}{{end}}`: "writes more than 20480 bytes",
	} {
		if _, err := ParseTemplate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", text, err, want)
		}
	}
}

func TestTemplatesSeeTheMessage(t *testing.T) {
	t.Parallel()
	tmpl, err := ParseTemplate(`{{.ID}} {{.Key}} {{upper "a"}} {{lower "B"}} {{cut 3 "abcdef"}} {{default "x" ""}} {{json .Event.Data.Saved}} {{range fields .Event}}{{.Name}};{{end}} {{release .Event}}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tmpl.Render(Example())
	if want := "evt-example viIzp0jq26E8k6XTjdCptc A b ab… x {\"requests\":1,"; err != nil || !strings.HasPrefix(got, want) || !strings.Contains(got, "Policy;Detector;") {
		t.Errorf("%v: %s", err, got)
	}
}

func TestFitShowsAsMuchAsThereIsRoomFor(t *testing.T) {
	t.Parallel()
	for _, each := range []int{1, 100, 5000, 30000} {
		body, err := Fit(50, func(shown int) ([]byte, error) { return make([]byte, 10+shown*each), nil })
		if err != nil || len(body) > sink.MaxBody || len(body)+each < sink.MaxBody && len(body) < 10+50*each && each < 5000 {
			t.Errorf("%d bytes with loops of %d: %v", len(body), each, err)
		}
	}
}
