package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/kit/access"
	"github.com/unloop/unloop/schemas/status"
)

// rounds is the number of repetitions after which a loop counts as not stopped.
const rounds = 12

// maxTried bounds the number of policies that are tried.
const maxTried = 10

// trial is the request that tries one policy.
type trial struct {
	// name names the policy; "" for whichever applies.
	name   string
	header http.Header
	// path may be "", for that of the check API's default format.
	path, model string
}

// checkProtection tries each policy that enforces something with two loops: the same prompt
// over and over, and the same tool call with the same result. The loops have a caller and a
// session of their own, and are probes: they raise no incident and notify nobody.
func (e *examination) checkProtection(ctx context.Context) (all []Finding) {
	if !e.reachable {
		return []Finding{{protected, Fault, "not known: no gateway was asked", "see the findings above"}}
	}
	ask, err := client.New(e.Gateway)
	if err != nil {
		return []Finding{{protected, Fault, err.Error(), "name the gateway as a URL with --gateway"}}
	}
	trials, untried := e.trials()
	for _, t := range trials {
		all = append(all, e.try(ctx, ask, t)...)
	}
	return append(all, untried...)
}

// protected is the name of the check whether loops are stopped.
const protected = "am I protected?"

// trials returns a trial for each policy, and findings about the policies that are not
// tried. If the user gives headers, or no policy has a selector, one trial is enough.
func (e *examination) trials() (all []trial, untried []Finding) {
	usual := trial{model: "unloop-doctor"}
	policies := e.enforced()
	if len(e.Header) > 0 || !slices.ContainsFunc(policies, func(p status.Policy) bool { return p.Selects != nil }) {
		return []trial{usual}, nil
	}
	for _, p := range policies {
		s := p.Selects
		switch {
		case s == nil:
			all = append(all, trial{name: "policy " + p.ID, model: usual.model})
		case len(s.Others) > 0:
			untried = append(untried, Finding{protected, OK, fmt.Sprintf("policy %s: not tried: it selects by %s", p.ID, strings.Join(s.Others, ", ")), ""})
		default:
			t := trial{name: "policy " + p.ID, path: s.Path, model: cmp.Or(s.Model, usual.model), header: http.Header{}}
			for name, value := range s.Headers {
				t.header.Set(name, value)
			}
			for name, value := range map[string]string{"X-Tenant-ID": s.Tenant, "X-Project-ID": s.Project} {
				if value != "" {
					t.header.Set(name, value)
				}
			}
			all = append(all, t)
		}
	}
	if more := len(all) - maxTried; more > 0 {
		all = all[:maxTried]
		untried = append(untried, Finding{protected, OK, fmt.Sprintf("%d further policies were not tried; name one with --tenant, --project or --header", more), ""})
	}
	return all, untried
}

// enforced returns the policies of all gateways that may stop something.
func (e *examination) enforced() (all []status.Policy) {
	for _, p := range Parts(e.parts, "gateway") {
		if p.Bundle == nil {
			continue
		}
		for _, one := range p.Bundle.Policies {
			known := slices.ContainsFunc(all, func(other status.Policy) bool { return other.ID == one.ID })
			if one.Mode == "enforce" && len(one.Detectors) > 0 && !known {
				all = append(all, one)
			}
		}
	}
	return all
}

// try makes the two loops of a trial.
func (e *examination) try(ctx context.Context, ask *client.Client, t trial) []Finding {
	nonce := access.NewChallenge()
	request := client.Request{Path: t.path, Model: t.model}
	if t.path != "" {
		request.Format = "openai-chat"
	}
	prompt := e.loop(ctx, ask, t, "the same prompt", func(int) client.Request {
		r := request
		r.Prompt, r.Session = "unloop doctor "+nonce, "prompt-"+nonce
		return r
	})
	tool := e.loop(ctx, ask, t, "the same tool call with the same result", func(n int) client.Request {
		r := request
		r.Messages, r.Session = history(nonce, n), "tool-"+nonce
		return r
	})
	if prompt.State == Fault && tool.State != Fault || tool.State == Fault && prompt.State != Fault {
		prompt.State, tool.State = soften(prompt.State), soften(tool.State) // one of two kinds of loops is stopped
	}
	for _, f := range []*Finding{&prompt, &tool} {
		if t.name != "" {
			f.Detail = t.name + ": " + f.Detail
		}
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
func (e *examination) loop(ctx context.Context, ask *client.Client, t trial, what string, request func(n int) client.Request) Finding {
	f := Finding{Check: protected, State: Fault}
	would, missed := "", 0
	for n := 1; n <= rounds; n++ {
		r := request(n)
		r.Probe, r.Header = true, e.own(r.Session)
		maps.Copy(r.Header, t.header)
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

// history returns the messages of an agent that has made the same call n times.
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
