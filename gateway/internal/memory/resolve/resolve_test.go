package resolve

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/gateway/internal/memory/answers"
	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/provider/responses"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/checkpb"
)

var (
	hasher = identity.NewHasher([identity.KeySize]byte{1})
	opts   = provider.Options{Tail: 3, Items: 48}
	now    = time.Unix(1_000_000, 0)
)

// known has sessions and calls by the ids of answers and items.
type known struct {
	sessions map[string]string
	calls    map[string][]*checkpb.ToolCall
	changing map[string]bool // by id, whether its calls change
}

func (k known) Session(_ context.Context, _, id string) (string, error) {
	if session, ok := k.sessions[id]; ok {
		return session, nil
	}
	return "", answers.ErrUnknown
}

func (k known) Calls(_ context.Context, _, id string, changes bool) ([]*checkpb.ToolCall, error) {
	if calls, ok := k.calls[id]; ok && k.changing[id] == changes {
		return calls, nil
	}
	return nil, answers.ErrUnknown
}

// read is a request with a body, as it was read and parsed.
func read(t *testing.T, format *provider.Format, body string) (*http.Request, *request.Request) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	req := request.New(r, route.Target{Format: format})
	req.Body = &request.Body{Bytes: []byte(body), Text: []byte(body)}
	if body != "" {
		prompt, err := req.Provider.Parse(req.Body.Text, opts)
		if err != nil || prompt == nil {
			t.Fatalf("%s: %v", body, err)
		}
		req.Prompt = prompt
	}
	return r, req
}

func resolver(a Answers) *Resolver {
	return New(Config{Project: "p", Timeout: time.Minute}, a, prometheus.NewRegistry())
}

const (
	hello      = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	withTools  = `{"model":"m","tools":[{"type":"function","function":{"name":"sh"}}],"messages":[{"role":"user","content":%q}]}`
	goesOn     = `{"model":"m","previous_response_id":"resp_1","input":[{"type":"function_call_output","call_id":"c1","output":"done"}]}`
	summary    = "This is the conversation so far, in short: nothing."
	itsSession = "the answer's session"
)

func TestSubject(t *testing.T) {
	t.Parallel()
	store := known{sessions: map[string]string{"resp_1": itsSession}}
	caller := hasher.Caller("sk-one", "")
	_, greeting := read(t, chat.Format, hello)
	implied, _ := hasher.Identify(httptest.NewRequest(http.MethodPost, "/", nil), "sk-one", "p", greeting.Prompt)
	mine := httptest.NewRequest(http.MethodPost, "/", nil)
	mine.Header.Set("X-Session-Id", "mine")
	named, _ := hasher.Identify(mine, "sk-one", "p", nil)
	for name, c := range map[string]struct {
		format  *provider.Format
		body    string
		header  string // X-Session-Id
		client  request.Principal
		nobody  bool // without a hasher
		answers Answers
		want    *checkpb.Identity
		own     bool
		unknown float64
	}{
		"without a hasher":      {format: chat.Format, body: hello, nobody: true, want: &checkpb.Identity{}},
		"no prompt":             {format: plain.Format, want: &checkpb.Identity{Project: "p", Caller: caller}},
		"an implied session":    {format: chat.Format, body: hello, want: &checkpb.Identity{Project: "p", Caller: caller, Session: implied.GetSession()}},
		"a named session":       {format: chat.Format, body: hello, header: "mine", want: &checkpb.Identity{Project: "p", Caller: caller, Session: named.GetSession()}, own: true},
		"a verified tenant":     {format: plain.Format, client: request.Principal{ID: "x", Tenant: "acme", Tenanted: true}, want: &checkpb.Identity{Project: "p", Caller: caller, Tenant: "acme"}},
		"an answer's session":   {format: responses.Format, body: goesOn, answers: store, want: &checkpb.Identity{Project: "p", Caller: caller, Session: itsSession}, own: true},
		"a name outranks it":    {format: responses.Format, body: goesOn, header: "mine", answers: store, want: &checkpb.Identity{Project: "p", Caller: caller, Session: named.GetSession()}, own: true},
		"an unknown answer":     {format: responses.Format, body: goesOn, answers: known{}, want: &checkpb.Identity{Project: "p", Caller: caller, Session: answers.Key(caller, "resp_1")}, own: true, unknown: 1},
		"without known answers": {format: responses.Format, body: goesOn, want: &checkpb.Identity{Project: "p", Caller: caller, Session: answers.Key(caller, "resp_1")}, own: true, unknown: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, req := read(t, c.format, c.body)
			if c.header != "" {
				r.Header.Set("X-Session-Id", c.header)
			}
			v := resolver(c.answers)
			from := Sender{Client: c.client, Key: "sk-one", Hasher: hasher}
			if c.nobody {
				from.Hasher = nil
			}
			got := v.Subject(r, req, from, now)
			if got.Identity.String() != c.want.String() || got.OwnSession != c.own || got.Client != c.client {
				t.Errorf("got %v, own %v; want %v, own %v", got.Identity, got.OwnSession, c.want, c.own)
			}
			if n := testutil.ToFloat64(v.unknownAnswers); n != c.unknown {
				t.Errorf("%v unknown answers are counted", n)
			}
		})
	}
}

func TestAnAgentThatSumsItsHistoryUpKeepsItsSession(t *testing.T) {
	t.Parallel()
	v := resolver(nil)
	session := func(body string) string {
		r, req := read(t, chat.Format, body)
		return v.Subject(r, req, Sender{Key: "sk-one", Hasher: hasher}, now).Identity.GetSession()
	}
	first := session(fmt.Sprintf(withTools, "Mend the build"))
	if second := session(fmt.Sprintf(withTools, summary)); second != first {
		t.Error("a summary begins a session")
	}
	if chat := session(`{"model":"m","messages":[{"role":"user","content":"` + summary + `"}]}`); chat == first {
		t.Error("a chat without tools has an agent's session")
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	call := func(tool, id string) *checkpb.ToolCall {
		c, _, ok := responses.Called(fmt.Appendf(nil, `{"type":"function_call","call_id":%q,"name":%q,"arguments":"{}"}`, id, tool))
		if !ok {
			t.Fatal("no call")
		}
		return &checkpb.ToolCall{Tool: c.Tool, Id: c.ID[:], Call: c.Key[:]}
	}
	store := known{
		calls: map[string][]*checkpb.ToolCall{
			"resp_1": {call("read", "c1"), call("write", "c2")}, "fc_1": {call("read", "c1")}, "conv_1": {call("search", "c1")}, "odd": {{Tool: "odd", Id: []byte("short")}},
		},
		changing: map[string]bool{"conv_1": true},
	}
	const outputOf = `{"model":"m",%s"input":[%s{"type":"function_call_output","call_id":"c1","output":"done"}]}`
	for name, c := range map[string]struct {
		body    string
		answers Answers
		tools   []string // of the calls in the history
		open    []string
		unknown float64
	}{
		"of the answer before":           {fmt.Sprintf(outputOf, `"previous_response_id":"resp_1",`, ""), store, []string{"read"}, []string{"write"}, 0},
		"of the conversation":            {fmt.Sprintf(outputOf, `"conversation":"conv_1",`, ""), store, []string{"search"}, nil, 0},
		"of an unknown answer":           {fmt.Sprintf(outputOf, `"previous_response_id":"resp_2",`, ""), store, nil, nil, 1},
		"of an answer with another call": {fmt.Sprintf(outputOf, `"previous_response_id":"odd",`, ""), store, nil, []string{"odd"}, 0},
		"without known answers":          {fmt.Sprintf(outputOf, `"previous_response_id":"resp_1",`, ""), nil, nil, nil, 1},
		"by an item's id":                {fmt.Sprintf(outputOf, "", `{"type":"item_reference","id":"fc_1"},`), store, []string{"read"}, nil, 0},
		"by the id of an unknown item":   {fmt.Sprintf(outputOf, "", `{"type":"item_reference","id":"fc_2"},`), store, nil, nil, 1},
		"in full": {
			fmt.Sprintf(outputOf, "", `{"type":"function_call","call_id":"c1","name":"own","arguments":"{}"},`), store, []string{"own"}, nil, 0,
		},
		"of an answer, without a result": {`{"model":"m","previous_response_id":"resp_1","input":"go on"}`, store, nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, req := read(t, responses.Format, c.body)
			v := resolver(c.answers)
			prompt, transcript := req.Prompt, req.Prompt.Transcript
			before, _ := req.Prompt.Transcript.History(provider.Rules{})
			completed, open := v.Calls(r.Context(), req, "caller", opts)
			after, _ := req.Prompt.Transcript.History(provider.Rules{})
			if req.Prompt != prompt || prompt.Transcript != transcript || cmp.Diff(before, after) != "" {
				t.Error("the given request was changed")
			}
			var tools []string
			items, _ := completed.Prompt.Transcript.History(provider.Rules{})
			for _, item := range items {
				tools = append(tools, names(item.Calls)...)
			}
			if diff := cmp.Diff(c.tools, tools); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.open, names(open)); diff != "" {
				t.Errorf("open calls (-want +got):\n%s", diff)
			}
			if n := testutil.ToFloat64(v.unknownCalls); n != c.unknown {
				t.Errorf("%v times unknown calls are counted", n)
			}
		})
	}
}

func names(calls []provider.ToolCall) (tools []string) {
	for _, c := range calls {
		tools = append(tools, c.Tool)
	}
	return tools
}
