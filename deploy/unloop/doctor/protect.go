package doctor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/kit/access"
)

// rounds is how often a loop is repeated before it counts as not stopped.
const rounds = 12

// checkProtection makes two loops of its own, with a caller and a session that nobody else
// has: the same prompt again and again, and the same tool call with the same result. They
// are probes: they raise no incident and notify nobody.
func (e *examination) checkProtection(ctx context.Context) []Finding {
	if !e.reachable {
		return []Finding{{"am I protected?", Fault, "not known: no gateway was asked", "see the findings above"}}
	}
	ask, err := client.New(e.Gateway)
	if err != nil {
		return []Finding{{"am I protected?", Fault, err.Error(), "name the gateway as a URL with --gateway"}}
	}
	nonce := access.NewChallenge()
	prompt := e.loop(ctx, ask, "the same prompt", func(int) client.Request {
		return client.Request{Prompt: "unloop doctor " + nonce, Model: "unloop-doctor", Session: "prompt-" + nonce}
	})
	tool := e.loop(ctx, ask, "the same tool call with the same result", func(n int) client.Request {
		return client.Request{Messages: history(nonce, n), Model: "unloop-doctor", Session: "tool-" + nonce}
	})
	if prompt.State == Fault && tool.State != Fault || tool.State == Fault && prompt.State != Fault {
		prompt.State, tool.State = soften(prompt.State), soften(tool.State) // one of two kinds of loops is stopped
	}
	return []Finding{prompt, tool}
}

func soften(s State) State {
	if s == Fault {
		return Warning
	}
	return s
}

// loop repeats a request until it is stopped.
func (e *examination) loop(ctx context.Context, ask *client.Client, what string, request func(n int) client.Request) Finding {
	f := Finding{Check: "am I protected?", State: Fault}
	would, missed := "", 0
	for n := 1; n <= rounds; n++ {
		r := request(n)
		r.Probe, r.Header = true, e.own(r.Session)
		d, err := ask.Check(ctx, r)
		switch {
		case d == nil:
			f.Detail, f.Mend = "not known: "+reason(err), "give a key with --key where the gateway asks for one, or look at its log"
			return f
		case d.Degraded != "" && missed < tolerated: // a busy machine
			missed++
		case d.Degraded != "":
			f.Detail, f.Mend = "no: requests pass unchecked ("+d.Degraded+")", "see the findings above about NATS and detectors"
			return f
		case d.Reason == client.ReasonLoop && !d.Allowed():
			by := d.Findings[0]
			f.State, f.Detail = OK, fmt.Sprintf("yes: %s is stopped at number %d (policy %s, detector %s)", what, n, by.Policy, by.Detector)
			return f
		case !d.Allowed():
			f.State, f.Detail, f.Mend = Warning, "not known: the request is stopped for another reason: "+d.Message, "see `unloop overrides` and the rules of the policies"
			return f
		}
		for _, by := range d.Findings {
			if by.Shadow {
				would = " (a policy in shadow mode would " + by.Action + " it)"
			}
		}
	}
	f.Detail = fmt.Sprintf("no: %s passes %d times%s", what, rounds, would)
	f.Mend = "turn the detectors on in a policy that matches POST /v1/chat/completions, without LOOP_DETECTION_ENABLED=false: `unloop policy explain` says what applies; " +
		"if policies are for tenants, projects or headers, name one with --tenant, --project or --header"
	return f
}

// history returns the messages of an agent that made the same call n times.
func history(nonce string, n int) json.RawMessage {
	type object = map[string]any
	messages := []object{{"role": "user", "content": "unloop doctor " + nonce}}
	for i := range n {
		id := fmt.Sprint("call_", i)
		call := object{"id": id, "type": "function", "function": object{"name": "read_file", "arguments": `{"path":"doctor"}`}}
		messages = append(messages, object{"role": "assistant", "content": "", "tool_calls": []object{call}}, object{"role": "tool", "tool_call_id": id, "content": nonce})
	}
	text, err := json.Marshal(messages)
	if err != nil {
		return nil // strings and numbers can be encoded
	}
	return text
}
