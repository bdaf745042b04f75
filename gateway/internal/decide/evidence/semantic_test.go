package evidence

import (
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/semanticpb"
)

func TestTextsAreComparedAsTheirSessionAllows(t *testing.T) {
	t.Parallel()
	const own, sentences, all = semanticpb.Compare_COMPARE_OWN_HISTORY, semanticpb.Compare_COMPARE_SENTENCES, semanticpb.Compare_COMPARE_EMBEDDINGS
	for name, c := range map[string]struct {
		spec    string
		a       asked
		none    bool // nothing is compared
		compare semanticpb.Compare
		flags   string
	}{
		"an agent in its session":              {"{semantic: {scope: session}}", asked{body: tools, session: "s"}, false, all, ""},
		"an agent without a session":           {"{semantic: {scope: session}}", asked{body: tools}, false, own, ""},
		"an agent among its caller's":          {"{semantic: {scope: caller}}", asked{body: tools}, false, all, ""},
		"a prompt without a session":           {"{semantic: {scope: session}}", asked{body: chat}, false, sentences, "hint"},
		"a prompt in its session":              {"{semantic: {scope: session}, prompt: {}}", asked{body: chat, session: "s"}, false, all, "identical"},
		"a prompt where prompts are off":       {"{semantic: {scope: session}, prompt: {max_hits: 0}}", asked{body: chat}, true, all, ""},
		"an agent where prompts are off":       {"{semantic: {scope: session}, prompt: {max_hits: 0}}", asked{body: tools, session: "s"}, false, own, ""},
		"a threshold of the policy's own":      {"{semantic: {scope: session, threshold: 0.5}}", asked{body: tools, session: "s"}, false, all, ""},
		"a prompt of nothing but empty spaces": {"{semantic: {}}", asked{body: `{"model":"m","messages":[{"role":"user","content":" "}]}`}, true, all, ""},
	} {
		c.a.caller = "c"
		e := c.a.of(t, policies(t, c.spec))
		w := e.Check.GetSemantics()
		if c.none {
			if w != nil || e.Check.GetExchange() != nil {
				t.Errorf("%s: %v", name, w)
			}
			continue
		}
		var words []string
		if w[0].GetHintOnly() {
			words = append(words, "hint")
		}
		if w[0].GetLeaveIdentical() {
			words = append(words, "identical")
		}
		if got := strings.Join(words, " "); w[0].GetCompare() != c.compare || got != c.flags {
			t.Errorf("%s: compared %v %q, want %v %q", name, w[0].GetCompare(), got, c.compare, c.flags)
		}
		if e.Check.GetExchange().GetAnswered() == "" || e.Check.GetExchange().GetTrace().GetDigest() == 0 {
			t.Errorf("%s: exchange %v", name, e.Check.GetExchange())
		}
	}
}

func TestHistoriesOfTextsAreKeptApart(t *testing.T) {
	t.Parallel()
	verified := func(in *Input) { in.Identity.Tenant, in.Client.Tenanted = "acme", true }
	label := func(in *Input) { in.Identity.Tenant = "acme" }
	for name, c := range map[string]struct {
		a, b         string // specs
		first, other asked
		same         bool
	}{
		"of sessions":                      {"session", "session", asked{body: tools, session: "s", caller: "c"}, asked{body: tools, session: "t", caller: "c"}, false},
		"of one session":                   {"session", "session", asked{body: tools, session: "s", caller: "c"}, asked{body: tools, session: "s", caller: "c"}, true},
		"of one caller":                    {"caller", "caller", asked{body: tools, session: "s", caller: "c"}, asked{body: tools, session: "t", caller: "c"}, true},
		"of callers":                       {"caller", "caller", asked{body: tools, caller: "c"}, asked{body: tools, caller: "d"}, false},
		"of one tenant":                    {"tenant", "tenant", asked{body: tools, caller: "c", set: verified}, asked{body: tools, caller: "d", set: verified}, true},
		"of a tenant that anybody can say": {"tenant", "tenant", asked{body: tools, caller: "c", set: label}, asked{body: tools, caller: "d", set: label}, false},
		"of two scopes":                    {"caller", "tenant", asked{body: tools, caller: "c"}, asked{body: tools, caller: "c"}, false},
		"of prompts without a session, by their end": {
			"session", "session", asked{body: strings.Replace(chat, "Fix", "You see it. Look. Fix", 1), caller: "c"}, asked{body: strings.Replace(chat, "Fix", "No, that is wrong. Look. Fix", 1), caller: "c"}, true,
		},
		"of prompts without a session, by their texts": {"session", "session", asked{body: chat, caller: "c"}, asked{body: other, caller: "c"}, false},
		"of what is only watched":                      {"session", "session}, mode: shadow, tool: {", asked{body: tools, session: "s", caller: "c"}, asked{body: tools, session: "s", caller: "c"}, false},
	} {
		scope := func(a asked, spec string) string {
			e := a.of(t, policies(t, "{semantic: {scope: "+spec+"}}"))
			return string(e.Check.GetSemantics()[0].GetScope())
		}
		if same := scope(c.first, c.a) == scope(c.other, c.b); same != c.same {
			t.Errorf("%s: one history is %t, want %t", name, same, c.same)
		}
	}
}

// A call that does something and is only acknowledged tells nothing that could be compared:
// each call of a batch has the same result.
func TestAcknowledgedCallsAreNotCompared(t *testing.T) {
	t.Parallel()
	set := policies(t, "{tool: {}, semantic: {}}")
	for name, c := range map[string]struct {
		tool, result string
		compared     bool
	}{
		"an acknowledgement":  {"book", "the booking is made", false},
		"more than that":      {"book", "the booking is made, and the rooms have a view of the lake", true},
		"an error":            {"book", "Error: no room", true},
		"what was read":       {"read", "the text of a", true},
		"a command's output":  {"bash", "the text of a", true},
		"a command's silence": {"bash", "", false},
		"nothing found":       {"search", "No results found.", false},
	} {
		body := strings.NewReplacer(`"read"`, `"`+c.tool+`"`, "the text of a", c.result).Replace(tools)
		e := asked{body: body, caller: "c"}.of(t, set)
		if compared := len(e.Check.GetSemantics()) > 0; compared != c.compared {
			t.Errorf("%s: compared is %t, want %t", name, compared, c.compared)
		}
	}
}
