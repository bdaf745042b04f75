package replay

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/memory/resolve"
	"github.com/unloop/unloop/gateway/internal/rules/override"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/schemas/checkpb"
)

// keeping is a provider's side: each answer has the session "s" and one open call.
type keeping struct{ call *checkpb.ToolCall }

func (keeping) Session(context.Context, string, string) (string, error) { return "s", nil }

func (k keeping) Calls(context.Context, string, string, bool) ([]*checkpb.ToolCall, error) {
	return []*checkpb.ToolCall{k.call}, nil
}

// answeredCall is what the provider keeps of a call with the id "c1".
func answeredCall() *checkpb.ToolCall {
	id := message.CallID([]byte("c1"))
	return &checkpb.ToolCall{Tool: "read", Id: id[:], Call: id[:]}
}

func TestARequestStaysAsItWasReadInAllLaterStages(t *testing.T) {
	t.Parallel()
	const result = `{"type":"function_call_output","call_id":"c1","output":"done"}`
	for name, c := range map[string]struct{ path, body string }{
		"an agent's history":           {"/v1/chat/completions", `{"model":"m","tools":[{"type":"function","function":{"name":"sh"}}],"messages":[{"role":"user","content":"go"}]}`},
		"results of an earlier answer": {"/v1/responses", `{"model":"m","previous_response_id":"resp_1","input":[` + result + `]}`},
		"a call by its item's id":      {"/v1/responses", `{"model":"m","input":[{"type":"item_reference","id":"fc_1"},` + result + `]}`},
		"no JSON":                      {"/v1/chat/completions", `{`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := New(&Config{MaxInspectBytes: 1 << 20}, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			e.stages.Resolver = resolve.New(resolve.Config{Timeout: time.Minute}, keeping{answeredCall()}, prometheus.NewRegistry())
			r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
			target, _ := e.stages.Table.Route(r)
			unread, rules := request.New(r, target), e.stages.Policies.Rules()
			if err := e.stages.Read(r, unread); err != nil {
				t.Fatal(err)
			}
			req := e.parse(t.Context(), unread, rules)
			before := taken(req)
			from := e.stages.Resolve(r, req, rules, request.Principal{}, e.hasher)
			subject := from
			override.Decide(e.overrides.At(e.stages.Now()), rules.Set, req, &from, e.stages.Now())
			if found := e.stages.Evidence(r.Context(), req, &from, rules, nil); found.Check == nil {
				t.Fatal("nothing is checked")
			}
			if diff := cmp.Diff(before, taken(req)); diff != "" {
				t.Errorf("the request changed (-before +after):\n%s", diff)
			}
			if from.Identity != subject.Identity || from.Descriptors != subject.Descriptors || from.OwnSession != subject.OwnSession {
				t.Errorf("its subject changed: %+v", from)
			}
		})
	}
}

// state is what later stages know of a request.
type state struct {
	Model, Uninspected, Text string
	Body                     string // its address, as that of the prompt and its transcript
	Prompt                   string
	References               []string
	Items                    []provider.Item
}

func taken(req *request.Request) state {
	s := state{Model: req.Model(), Uninspected: req.Uninspected, Text: string(req.Body.Inspected()), Body: fmt.Sprintf("%p", req.Body)}
	if p := req.Prompt; p != nil {
		s.Prompt, s.References = fmt.Sprintf("%p %p", p, p.Transcript), p.References
		s.Items, _ = p.Transcript.History(provider.Rules{})
	}
	return s
}
