package evidence

import (
	"fmt"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/details"
)

// rounds returns the body of a conversation in which a file is read for each line, with
// words before it.
func rounds(lines ...string) string {
	var b strings.Builder
	b.WriteString(`{"model":"gpt-4o","messages":[{"role":"user","content":"Fix it."}`)
	for i, line := range lines {
		fmt.Fprintf(&b, `,{"role":"assistant","content":"Let me read %s.","tool_calls":[{"id":"c%d","type":"function","function":{"name":"read","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c%d","content":"The text of it is long enough to be compared."}`, line, i, i)
	}
	return b.String() + `]}`
}

func TestExchangesBringEarlierOnesOfTheSameDetails(t *testing.T) {
	t.Parallel()
	set := policies(t, "{semantic: {history_size: 3}}")
	memory := NewMemory()
	with := func(in *Input) { in.Memory = memory }
	for name, c := range map[string]struct {
		lines, alike []string
	}{
		"the first":               {[]string{"page 1"}, nil},
		"other details":           {[]string{"page 1", "page 2"}, nil},
		"the same in two":         {[]string{"page 2", "the 2nd page", "page 3", "the page 2"}, []string{"page 2"}},
		"the same words":          {[]string{"page 2", "page 2", "page 2"}, nil}, // their digest is that of the newest
		"others, equal each":      {[]string{"the page 2", "the page 2", "page 2"}, []string{"the page 2"}},
		"more than six before":    {[]string{"the page 2", "3", "4", "5", "6", "7", "8", "page 2"}, nil},
		"six before":              {[]string{"the page 2", "3", "4", "5", "6", "7", "page 2"}, []string{"the page 2"}},
		"none has any":            {[]string{"a page", "the page", "it"}, []string{"the page", "a page"}},
		"a prompt is no exchange": {[]string{"it"}, nil},
	} {
		e := asked{body: rounds(c.lines...), caller: "c", session: "s", set: with}.of(t, set).Check.GetExchange()
		if e.GetTrace().Details == nil || details.Sum(e.GetTrace().GetDetails()) != details.Of(e.GetSaid(), e.GetAnswered()) {
			t.Errorf("%s: details %v", name, e.GetTrace().Details)
		}
		var got []string
		for _, a := range e.GetAlike() {
			line, _, _ := strings.Cut(strings.TrimPrefix(a.GetSaid(), "Let me read "), ".")
			got = append(got, line)
			if a.GetDigest() == 0 || !strings.HasPrefix(a.GetAnswered(), "The text of it") {
				t.Errorf("%s: %v", name, a)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(c.alike) {
			t.Errorf("%s: alike are %q, want %q", name, got, c.alike)
		}
	}
}

// Exchanges in the same words that do something with another item, or ask for another, are
// named. Those that only look are not: they look for the same in other words.
func TestExchangesNameThoseAboutOtherItems(t *testing.T) {
	t.Parallel()
	const report = "I looked through all of it and found nothing that is wrong."
	call := func(tool, args string) string {
		return fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":"%[1]s %[2]s","type":"function","function":{"name":%[1]q,"arguments":%[2]q}}]},
			{"role":"tool","tool_call_id":"%[1]s %[2]s","content":%[3]q}`, tool, args, report)
	}
	said := func(question string) string {
		return fmt.Sprintf(`{"role":"assistant","content":"It is deep and cold."},{"role":"user","content":%q}`, question)
	}
	for name, c := range map[string]struct {
		one, two      string
		others, alike int
	}{
		"tasks":                {call("task", "Review the module alpha and report."), call("task", "Review the module beta and report."), 1, 0},
		"a task again":         {call("task", "Review the module alpha and report."), call("task", "Now review the module alpha and report, please."), 0, 1},
		"searches":             {call("search", "lamp price alpha"), call("search", "lamp price beta"), 0, 1},
		"questions":            {said("How deep is the lake of Geneva?"), said("How deep is the lake of Garda?"), 1, 0},
		"a question once more": {said("How deep is the lake of Geneva?"), said("So how deep is the lake of Geneva?"), 0, 1},
	} {
		body := `{"model":"m","messages":[{"role":"user","content":"Go."},` + c.one + "," + c.one + "," + c.two + "]}"
		e := asked{body: body, caller: "c", session: "s"}.of(t, policies(t, "{tool: {}, semantic: {}}")).Check.GetExchange()
		if len(e.GetTrace().GetOthers()) != c.others || len(e.GetAlike()) != c.alike {
			t.Errorf("%s: %d others and %d alike, want %d and %d", name, len(e.GetTrace().GetOthers()), len(e.GetAlike()), c.others, c.alike)
		}
	}
}

func TestOnlyAHistoryThatIsShownIsEmbeddedLazily(t *testing.T) {
	t.Parallel()
	delta := func(in *Input) { in.Prompt.Delta = true }
	for name, c := range map[string]struct {
		spec string
		a    asked
		want bool
	}{
		"a session":               {"{semantic: {}}", asked{body: tools}, true},
		"a history of 16":         {"{semantic: {history_size: 16}}", asked{body: tools}, true},
		"a longer history":        {"{semantic: {history_size: 17}}", asked{body: tools}, false},
		"all of a caller":         {"{semantic: {scope: caller}}", asked{body: tools}, false},
		"all of a tenant":         {"{semantic: {scope: tenant}}", asked{body: tools}, false},
		"a prompt alone":          {"{semantic: {}}", asked{body: chat}, false},
		"what the provider keeps": {"{semantic: {}}", asked{body: tools, set: delta}, false},
	} {
		c.a.caller, c.a.session = "c", "s"
		check := c.a.of(t, policies(t, c.spec)).Check
		if got := check.GetSemantics()[0].GetLazy(); got != c.want {
			t.Errorf("%s: lazy is %t", name, got)
		}
		if sent := check.GetExchange().GetTrace().Details != nil; sent != c.want {
			t.Errorf("%s: details are sent: %t", name, sent)
		}
	}
}

// Another caller's exchange of the same digest would have other details.
func TestDetailsAreRememberedForEachCaller(t *testing.T) {
	t.Parallel()
	s := newSums()
	read := func(text string) func() (string, string) { return func() (string, string) { return text, "" } }
	one := s.of("a", 1, read("page 1"))
	if again := s.of("a", 1, func() (string, string) { t.Error("read again"); return "", "" }); again != one {
		t.Errorf("got %d, was %d", again, one)
	}
	if other := s.of("b", 1, read("page 2")); other == one {
		t.Error("another caller gets the same")
	}
	for i := range uint64(2 * maxSums) {
		s.of("a", i, read("page 3"))
	}
	if len(s.all) > maxSums {
		t.Errorf("%d are remembered", len(s.all))
	}
}
