// Package override decides whether an operator stopped a request, or exempted it from
// checks: with a block or an exemption, which operators set for all gateways, or with a kill
// switch of the policy bundle.
//
// It is pure: it takes the overrides, the request and a time. It does not know where
// overrides are stored, or how a refusal is sent.
package override

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/record"
)

// Code is the code of the error for a request that an operator stopped.
const Code = "loop_kill_switch"

// Entries are the blocks and exemptions that operators set, by key.
type Entries map[string]schemas.Override

// Read parses the override, in JSON, that is stored under a key. It is an error if its own
// key is another one.
func Read(key string, value []byte) (schemas.Override, error) {
	var read schemas.Override
	if err := json.Unmarshal(value, &read); err != nil {
		return read, fmt.Errorf("read override: %w", err)
	}
	if read.Key() != key {
		return read, fmt.Errorf("read override: it belongs under %s", read.Key())
	}
	return read, nil
}

// find returns the override with an action that applies to a sender at a time. Operators
// name a session by its hash, or by the client's name for it, which applies to all callers.
func (e Entries) find(action schemas.OverrideAction, from *request.Subject, now time.Time) (schemas.Override, bool) {
	if len(e) == 0 {
		return schemas.Override{}, false
	}
	id := from.Identity
	for _, wanted := range [...]schemas.Override{
		{Action: action, Scope: schemas.ScopeSession, Value: id.GetSession()}, {Action: action, Scope: schemas.ScopeSession, Value: from.SessionName},
		{Action: action, Scope: schemas.ScopeCaller, Value: id.GetCaller()},
		{Action: action, Scope: schemas.ScopeTenant, Value: id.GetTenant()}, {Action: action, Scope: schemas.ScopeProject, Value: id.GetProject()},
	} {
		if wanted.Value == "" {
			continue
		}
		if found, ok := e[wanted.Key()]; ok && found.StandsAt(now) {
			return found, true
		}
	}
	return schemas.Override{}, false
}

// Decision is the operators' decision on a request. The zero Decision is none.
type Decision struct {
	// Operator is the decision in terms of recordings: record.Blocked, record.KillSwitch or
	// record.Exempted; "" for none.
	Operator string
	// Reason is the operator's reason for a stop; it may be empty.
	Reason string
	// Exempt is the scope of the exemption; "" for none.
	Exempt string
}

// Decide returns the operators' decision on a request. A block comes before a kill switch,
// and both come before an exemption.
func Decide(entries Entries, rules *bundle.Set, r *request.Request, from *request.Subject, now time.Time) Decision {
	if block, found := entries.find(schemas.OverrideBlock, from, now); found {
		return Decision{Operator: record.Blocked, Reason: block.Reason}
	}
	if k := killSwitch(rules, r, from, now); k != nil {
		return Decision{Operator: record.KillSwitch, Reason: k.Reason}
	}
	if found, ok := entries.find(schemas.OverrideExempt, from, now); ok {
		return Decision{Operator: record.Exempted, Exempt: string(found.Scope)}
	}
	return Decision{}
}

// killSwitch returns the kill switch that applies to a request; nil for none. Claims of a
// token need not be verified: a client that forges one only stops itself.
func killSwitch(rules *bundle.Set, r *request.Request, from *request.Subject, now time.Time) *bundle.Kill {
	if rules.KillSwitchesOff(now) {
		return nil
	}
	for i := range rules.KillSwitches {
		k := &rules.KillSwitches[i]
		if !k.ActiveAt(now) || k.Route != "" && k.Route != r.Path && !slices.Contains(r.Target.Paths, k.Route) {
			continue
		}
		if value, ok := from.Descriptors.Get(k.Scope); ok && value.Text == k.ScopeValue {
			return k
		}
	}
	return nil
}

// Stops reports whether the request is refused.
func (d Decision) Stops() bool {
	return d.Operator == record.Blocked || d.Operator == record.KillSwitch
}

// Message explains to the client why the request is refused.
func (d Decision) Message() string {
	message := "Stopped by Unloop: an operator has stopped these requests (" + Code + ")"
	if d.Reason != "" {
		message += ", reason: " + d.Reason
	}
	if d.Operator == record.Blocked {
		return message + ". See `unloop overrides`, lift with `unloop unblock`."
	}
	return message + ". See the kill switches in `unloop policy show`."
}

// Refusal returns the refusal of the request. fairvisor adds Fairvisor's header.
func (d Decision) Refusal(status int, fairvisor bool, headers ...provider.Header) provider.Refusal {
	headers = append(headers, provider.Header{Name: "X-Loop-Reason", Value: "kill_switch"})
	if fairvisor {
		headers = append(headers, provider.Header{Name: "X-Fairvisor-Reason", Value: "kill_switch"})
	}
	return provider.Refusal{Status: status, Code: Code, Message: d.Message(), Headers: headers}
}
