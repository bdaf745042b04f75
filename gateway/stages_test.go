package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/auth"
	"github.com/unloop/unloop/gateway/internal/override"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/provider/transcript/message"
	"github.com/unloop/unloop/gateway/internal/request"
	"github.com/unloop/unloop/gateway/internal/resolve"
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
			e, err := NewEvaluator(DefaultConfig(), time.Now)
			if err != nil {
				t.Fatal(err)
			}
			e.resolver = resolve.New(resolve.Config{Timeout: time.Minute}, keeping{answeredCall()}, prometheus.NewRegistry())
			r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
			target, _ := e.table.Route(r)
			unread, rules := request.New(r, target), e.bundles.Rules()
			if err := e.read(r, unread); err != nil {
				t.Fatal(err)
			}
			x := e.parse(unread, rules)
			before := taken(x)
			from := e.resolve(r, x, rules, auth.Principal{}, e.hasher)
			subject := from
			override.Decide(e.overrides.At(e.now()), rules.Set, x, &from, e.now())
			if found := e.evidence(r.Context(), x, &from, rules, nil); found.Check == nil {
				t.Fatal("nothing is checked")
			}
			if diff := cmp.Diff(before.items, taken(x).items); diff != "" {
				t.Errorf("the history changed (-before +after):\n%s", diff)
			}
			if before.items = nil; !reflect.DeepEqual(before, without(taken(x))) || !reflect.DeepEqual(subject, from) {
				t.Errorf("the request or its subject changed: %+v, %+v", x, from)
			}
		})
	}
}

// state is all that is known of a request at a time.
type state struct {
	request request.Request
	prompt  provider.Prompt
	items   []provider.Item
	text    string
}

func taken(x *request.Request) state {
	s := state{request: *x, text: string(x.Body.Inspected())}
	if x.Prompt != nil {
		s.prompt = *x.Prompt
		s.items, _ = x.Prompt.Transcript.History(provider.Rules{})
	}
	return s
}

func without(s state) state {
	s.items = nil
	return s
}
