package evidence

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/wire/descriptor"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/policy"
)

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// policies returns a bundle's only policy, "p", with the given spec.
func policies(t testing.TB, spec string) *bundle.Set {
	t.Helper()
	return compiled(t, "bundle_version: 1\npolicies: [{id: p, spec: "+spec+"}]\n")
}

func compiled(t testing.TB, text string) *bundle.Set {
	t.Helper()
	b, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := bundle.Compile(b)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// asked is a request to collect evidence for.
type asked struct {
	method, url, body string // POST to Chat Completions
	header            map[string]string
	run               *request.ToolRun
	caller            string
	session           string // that it names
	uninspected       string
	set               func(*Input)
}

// input returns the input for a request.
func (a asked) input(t testing.TB, set *bundle.Set) *Input {
	t.Helper()
	if a.method == "" {
		a.method = http.MethodPost
	}
	if a.url == "" {
		a.url = "/v1/chat/completions"
	}
	r := httptest.NewRequest(a.method, a.url, nil)
	for name, value := range a.header {
		r.Header.Set(name, value)
	}
	table, err := route.NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	target, _ := table.Route(r)
	req := request.New(r, target)
	req.Body, req.Run, req.Uninspected = &request.Body{Bytes: []byte(a.body), Text: []byte(a.body)}, a.run, a.uninspected
	if a.run != nil {
		req.Prompt = &provider.Prompt{}
	} else if target.Format.Prompt() && a.uninspected == "" && a.body != "" {
		if req.Prompt, err = req.Provider.Parse(req.Body.Text, provider.Options{Tail: 3, Items: 48, Exchanges: 3}); err != nil || req.Prompt == nil {
			t.Fatalf("%s: %v", a.body, err)
		}
	}
	from := &request.Subject{Identity: &checkpb.Identity{Caller: a.caller, Session: a.session}, OwnSession: a.session != ""}
	if a.session == "" {
		from.Identity.Session = "derived"
	}
	from.Descriptors = descriptor.New(nil, nil, nil, nil).Values(descriptor.Subject{HTTP: r, Identity: from.Identity, Model: req.Model()})
	in := &Input{Request: req, Subject: from, Policies: set, Memory: NewMemory(), Now: start}
	if a.set != nil {
		a.set(in)
	}
	in.Matched = Match(set, req, from)
	return in
}

// of returns the evidence of a request.
func (a asked) of(t testing.TB, set *bundle.Set) Evidence {
	t.Helper()
	return Build(a.input(t, set))
}

const (
	chat  = `{"model":"gpt-4o","messages":[{"role":"user","content":"Fix the bug in the parser, please, and tell me when it is done."}]}`
	other = `{"model":"gpt-4o","messages":[{"role":"user","content":"Write a poem about the sea, and let it rhyme as little as it can."}]}`
	tools = `{"model":"gpt-4o","tools":[{"type":"function","function":{"name":"read"}}],"messages":[{"role":"user","content":"Fix it."},` +
		`{"role":"assistant","content":"Let me read it first.","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]},` +
		`{"role":"tool","tool_call_id":"c1","content":"the text of a"}]}`
)

func TestEachDetectorGetsWhatItsPolicyAsksFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec string
		a    asked
		want string // detectors, rules and settings
	}{
		"nothing":                    {`{}`, asked{body: chat}, ""},
		"a policy that does not fit": {`{selector: {methods: [GET]}, prompt: {}}`, asked{body: chat}, ""},
		"requests":                   {`{loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 5}}`, asked{method: "GET", url: "/v1/models"}, "request"},
		"prompts":                    {`{prompt: {}}`, asked{body: chat}, "prompt"},
		"no prompt":                  {`{prompt: {}}`, asked{method: "GET", url: "/v1/models"}, ""},
		"a body that can't be read":  {`{prompt: {uninspected_max: 3}}`, asked{body: "{", uninspected: request.UninspectedInvalid}, "prompt uninspected"},
		"a body that need not be read": {
			`{prompt: {uninspected_max: 0}}`, asked{body: "{", uninspected: request.UninspectedInvalid}, "prompt",
		},
		"tools":           {`{tool: {}}`, asked{body: tools}, "tools"},
		"cycles of tools": {`{cycle: {}}`, asked{body: tools}, "tools"},
		"a chat":          {`{tool: {}, cycle: {}}`, asked{body: chat}, ""},
		"texts":           {`{semantic: {}}`, asked{body: tools, caller: "c"}, "texts"},
		"texts of nobody": {`{semantic: {}}`, asked{body: tools}, ""},
		"a tool's call": {
			`{loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 5}, prompt: {}, tool: {}, semantic: {},
			  rules: [{name: r, limit_keys: [caller], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}]}`,
			asked{run: &request.ToolRun{Tool: "read"}, caller: "c"}, "tools",
		},
		"rules": {
			`{rules: [{name: r, limit_keys: [caller], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}},
			          {name: s, limit_keys: ["header:x-team"], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}]}`,
			asked{body: chat, caller: "c"}, "rule:r skipped:s/header:x-team",
		},
		"settings":                   {`{failure_mode: closed, session_repair: {enabled: true}, prompt: {}}`, asked{body: chat}, "prompt closed repair"},
		"settings of a mere watch":   {`{mode: shadow, failure_mode: closed, session_repair: {enabled: true}, prompt: {}}`, asked{body: chat}, "shadow:prompt"},
		"a session that is held out": {`{holdout: 1, prompt: {}}`, asked{body: chat, session: "s"}, "shadow:prompt"},
	} {
		e := c.a.of(t, policies(t, c.spec))
		if got := summary(&e); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if !e.At.Equal(start) {
			t.Errorf("%s: made at %s", name, e.At)
		}
	}
}

// summary names what is in evidence.
func summary(e *Evidence) string {
	var words []string
	for _, c := range e.Check.GetCounters() {
		word := c.GetDetector()
		if c.GetShadow() {
			word = "shadow:" + word
		}
		words = append(words, word)
	}
	if len(e.Check.GetWatches()) > 0 {
		words = append(words, "tools")
	}
	if len(e.Check.GetSemantics()) > 0 {
		words = append(words, "texts")
	}
	for _, l := range e.Check.GetLimits() {
		words = append(words, "rule:"+l.GetRule())
	}
	for _, s := range e.Skipped {
		words = append(words, "skipped:"+s.Rule.Name+"/"+s.Missing)
	}
	if e.FailClosed {
		words = append(words, "closed")
	}
	if e.Repair {
		words = append(words, "repair")
	}
	return strings.Join(words, " ")
}

func TestCheckSaysHowTheRequestIsMeant(t *testing.T) {
	t.Parallel()
	set := policies(t, `{prompt: {}, include_excerpt: true}`)
	e := asked{
		body: chat, caller: "c", header: map[string]string{"X-Stainless-Retry-Count": "2", "Idempotency-Key": "k"},
		set: func(in *Input) { in.DecisionOnly, in.Peek = true, true },
	}.of(t, set)
	c := e.Check
	if !c.GetRetry() || len(c.GetIdempotency()) != 64 || !c.GetAsked() || !c.GetPeek() || c.GetModel() != "gpt-4o" || c.GetBundle() != set.Version() ||
		c.GetIdentity().GetCaller() != "c" || c.GetInputTokens() != uint32(len(chat)/4) || c.GetRequestId() != "" {
		t.Errorf("%v", c)
	}
	e = asked{body: chat, header: map[string]string{"X-Stainless-Retry-Count": "0"}}.of(t, set)
	if e.Check.GetRetry() || e.Check.GetIdempotency() != "" || e.Check.GetAsked() || e.Check.GetPeek() {
		t.Errorf("%v", e.Check)
	}
}

func TestRequestsAreTheSameByWhatTheyAsk(t *testing.T) {
	t.Parallel()
	const loops = `loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 5, scope: `
	const rules = `, rules: [{name: r, limit_keys: ["header:x-team"], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 1}}]`
	first := asked{url: "/v1/x?b=1&a=2&a=1", body: `{"a":1,"b":2}`, caller: "c", header: map[string]string{"X-Team": "red"}}
	change := func(f func(*asked)) asked {
		out := first
		f(&out)
		return out
	}
	for name, c := range map[string]struct {
		scope string
		a     asked
		same  bool
	}{
		"the order of its members":        {"caller", change(func(a *asked) { a.body = `{"b": 2, "a": 1}` }), true},
		"the order of its query":          {"caller", change(func(a *asked) { a.url = "/v1/x?a=2&a=1&b=1" }), true},
		"the order of a list's values":    {"caller", change(func(a *asked) { a.url = "/v1/x?b=1&a=1&a=2" }), false},
		"the method":                      {"caller", change(func(a *asked) { a.method = "PUT" }), false},
		"the path":                        {"caller", change(func(a *asked) { a.url = "/v1/y?b=1&a=2&a=1" }), false},
		"the body":                        {"caller", change(func(a *asked) { a.body = `{"a":1,"b":3}` }), false},
		"a descriptor of the rules":       {"caller", change(func(a *asked) { a.header = map[string]string{"X-Team": "blue"} }), false},
		"the caller":                      {"caller", change(func(a *asked) { a.caller = "d" }), false},
		"the caller, where all are one":   {"all", change(func(a *asked) { a.caller = "d" }), true},
		"a header that nobody looks at":   {"caller", change(func(a *asked) { a.header = map[string]string{"X-Team": "red", "X-Other": "1"} }), true},
		"a query that is none":            {"caller", change(func(a *asked) { a.url = "/v1/x" }), false},
		"a descriptor that it lacks then": {"caller", change(func(a *asked) { a.header = nil }), false},
	} {
		set := policies(t, "{"+loops+c.scope+"}"+rules+"}")
		a, b := first.of(t, set), c.a.of(t, set)
		if same := bytes.Equal(a.Check.GetCounters()[0].GetFingerprint(), b.Check.GetCounters()[0].GetFingerprint()); same != c.same {
			t.Errorf("%s: the same is %t, want %t", name, same, c.same)
		}
	}
	unverified := descriptorOf(t, `eyJhbGciOiJub25lIn0.eyJ0ZWFtIjoicmVkIn0.`)
	if unverified != "unverified\x00red" {
		t.Errorf("a claim that anyone can write is %q", unverified)
	}
}

// descriptorOf returns the claim team of a token.
func descriptorOf(t *testing.T, token string) string {
	t.Helper()
	in := asked{header: map[string]string{"Authorization": "Bearer " + token}}.input(t, policies(t, "{}"))
	return (&maker{Input: *in}).descriptor(policy.Descriptor{Source: "jwt", Name: "team"})
}

func TestPromptsAreTheSameByWhatTheyAsk(t *testing.T) {
	t.Parallel()
	long := func(first, last string) string {
		return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q},{"role":"assistant","content":"yes"},{"role":"user","content":%q}]}`, first, last)
	}
	for name, c := range map[string]struct {
		spec string
		a, b asked
		same bool
	}{
		"the same":                           {"{}", asked{body: chat}, asked{body: chat}, true},
		"another prompt":                     {"{}", asked{body: chat}, asked{body: other}, false},
		"another model":                      {"{}", asked{body: chat}, asked{body: strings.Replace(chat, "4o", "5", 1)}, false},
		"another caller":                     {"{}", asked{body: chat, caller: "c"}, asked{body: chat, caller: "d"}, false},
		"another session":                    {"{scope: named}", asked{body: chat, session: "s"}, asked{body: chat, session: "t"}, false},
		"another session that is not named":  {"{scope: session}", asked{body: chat, session: "s"}, asked{body: chat, session: "t"}, false},
		"another session, counted together":  {"{scope: caller}", asked{body: chat, session: "s"}, asked{body: chat, session: "t"}, true},
		"another beginning":                  {"{tail_messages: 1}", asked{body: long("one", "last")}, asked{body: long("two", "last")}, false},
		"the same text":                      {"{fingerprint: text}", asked{body: chat}, asked{body: chat}, true},
		"another text":                       {"{fingerprint: text}", asked{body: chat}, asked{body: other}, false},
		"bytes of a body that can't be read": {"{}", asked{body: "{", uninspected: "x"}, asked{body: "[", uninspected: "x"}, false},
	} {
		set := policies(t, "{prompt: "+c.spec+"}")
		a, b := c.a.of(t, set), c.b.of(t, set)
		req, y := a.Check.GetCounters()[0], b.Check.GetCounters()[0]
		if same := bytes.Equal(req.GetFingerprint(), y.GetFingerprint()); same != c.same || !req.GetParted() {
			t.Errorf("%s: the same is %t, want %t", name, same, c.same)
		}
	}
	set := policies(t, "{prompt: {hint_rounds: 4, warn_hits: 9, warn_window_seconds: 3600}}")
	begins, goesOn := asked{body: chat}.of(t, set), asked{body: tools}.of(t, set)
	got := []uint32{begins.Check.GetCounters()[0].GetSlowHits(), goesOn.Check.GetCounters()[0].GetSlowHits(), goesOn.Check.GetCounters()[0].GetRounds()}
	if diff := cmp.Diff([]uint32{9, 0, 1}, got); diff != "" {
		t.Errorf("slow hits of a conversation that begins and of one that goes on, and its rounds (-want +got):\n%s", diff)
	}
}

// A conversation that the provider keeps shows its newest messages alone.
func TestPromptsOfAKeptHistoryBelongToTheirSession(t *testing.T) {
	t.Parallel()
	set := policies(t, "{prompt: {scope: named}, tool: {}, semantic: {}}")
	const kept = `{"model":"m","previous_response_id":"resp_1","input":[{"type":"function_call_output","call_id":"c1","output":"done"}]}`
	a, b := asked{url: "/v1/responses", body: kept, session: "s", caller: "c"}.of(t, set), asked{url: "/v1/responses", body: kept, session: "t", caller: "c"}.of(t, set)
	if req, y := a.Check.GetCounters()[0], b.Check.GetCounters()[0]; bytes.Equal(req.GetFingerprint(), y.GetFingerprint()) || req.GetTogether() != nil || req.GetSlowHits() != 0 {
		t.Errorf("%v and %v", req, y)
	}
	w := a.Check.GetWatches()
	if len(w) != 1 || !w[0].GetHistory().GetDelta() || !w[0].GetHistory().GetOwn() || len(w[0].GetHistory().GetBefore()) == 0 {
		t.Errorf("watches %v", w)
	}
	if s := a.Check.GetSemantics(); s != nil {
		t.Errorf("an answer that comes alone is compared: %v", s)
	}
}

func TestExcerptIsOfTheNewestExchange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec string
		a    asked
		want string
	}{
		"nobody asks for it": {"{prompt: {}}", asked{body: chat}, ""},
		"a prompt":           {"{prompt: {}, include_excerpt: true}", asked{body: tools}, "Let me read it first."},
		"a tool's call": {
			"{tool: {}, include_excerpt: true}", asked{run: &request.ToolRun{Tool: "read", Arguments: []byte(`{"path":"a"}`), Result: []byte("done"), Done: true}}, "read",
		},
		"a request without text": {
			"{loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 5}, include_excerpt: true}", asked{method: "GET", url: "/v1/models"}, "",
		},
	} {
		e := c.a.of(t, policies(t, c.spec))
		got := e.Check.GetExcerpt()
		if (got == nil) != (c.want == "") || !strings.Contains(got.GetText(), c.want) {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
		if got != nil && !cmp.Equal(got.GetPolicies(), []string{"p"}) {
			t.Errorf("%s: for %v", name, got.GetPolicies())
		}
	}
}

// BenchmarkOf makes the evidence of an agent's twenty-first round by the default policy.
func BenchmarkOf(b *testing.B) {
	standard, err := policy.Default(nil)
	if err != nil {
		b.Fatal(err)
	}
	set, err := bundle.Compile(standard)
	if err != nil {
		b.Fatal(err)
	}
	var body strings.Builder
	body.WriteString(`{"model":"gpt-4o","tools":[{"type":"function","function":{"name":"read"}}],"messages":[{"role":"user","content":"Fix the bug."}`)
	for i := range 20 {
		fmt.Fprintf(&body, `,{"role":"assistant","content":"Let me look at file %d.","tool_calls":[{"id":"c%d","type":"function","function":{"name":"read","arguments":"{\"path\":\"f%d\"}"}}]},`+
			`{"role":"tool","tool_call_id":"c%d","content":"text of file %d"}`, i, i, i, i, i)
	}
	body.WriteString(`]}`)
	in := asked{body: body.String(), caller: "c", session: "s"}.input(b, set)
	b.ReportAllocs()
	for b.Loop() {
		e := Build(in)
		in.Memory.Answered(&e.Waiting)
	}
}
