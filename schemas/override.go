package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// OverrideAction is the effect of an override.
type OverrideAction string

// The two overrides.
const (
	// OverrideBlock refuses every request of its scope.
	OverrideBlock OverrideAction = "block"
	// OverrideExempt forwards every request of its scope without a check.
	OverrideExempt OverrideAction = "exempt"
)

// OverrideScope is the property of a request that an override applies to.
type OverrideScope string

// The scopes. A caller is a hash, as events show it; a session is its hash, or its name as
// clients send it: that of every caller who has a session of the name.
const (
	ScopeSession OverrideScope = "session"
	ScopeCaller  OverrideScope = "caller"
	ScopeTenant  OverrideScope = "tenant"
	ScopeProject OverrideScope = "project"
)

// Override is a record in BucketOverrides, as JSON: what an operator blocks or exempts
// until ExpiresAt, whatever the policies say. The record has a TTL, too, but ExpiresAt
// decides.
type Override struct {
	Action    OverrideAction `json:"action"`
	Scope     OverrideScope  `json:"scope"`
	Value     string         `json:"value"`
	Reason    string         `json:"reason,omitempty"`
	CreatedAt time.Time      `json:"created_at"`
	ExpiresAt time.Time      `json:"expires_at"`
	// EndedAt is when an operator ended it before that; zero if none did.
	EndedAt time.Time `json:"ended_at,omitzero"`
}

// StandsAt reports whether the override holds at a time.
func (o Override) StandsAt(now time.Time) bool {
	return now.Before(o.ExpiresAt) && (o.EndedAt.IsZero() || now.Before(o.EndedAt))
}

// Key returns the override's key in BucketOverrides: ACTION.SCOPE.VALUE.
func (o Override) Key() string {
	return string(o.Action) + "." + string(o.Scope) + "." + KeyToken(o.Value)
}

// OverrideExpiry returns when an override in JSON expires; zero if it can't be read.
func OverrideExpiry(text []byte) time.Time {
	var o Override
	if json.Unmarshal(text, &o) != nil {
		return time.Time{}
	}
	return o.ExpiresAt
}

// Validate returns every fault of an override.
func (o Override) Validate() error {
	var faults []error
	switch o.Action {
	case OverrideBlock, OverrideExempt:
	default:
		faults = append(faults, fmt.Errorf("action is %q, must be %s or %s", o.Action, OverrideBlock, OverrideExempt))
	}
	switch o.Scope {
	case ScopeSession, ScopeCaller, ScopeTenant, ScopeProject:
	default:
		faults = append(faults, fmt.Errorf("scope is %q, must be %s, %s, %s or %s", o.Scope, ScopeSession, ScopeCaller, ScopeTenant, ScopeProject))
	}
	if o.Value == "" {
		faults = append(faults, errors.New("value is missing"))
	}
	if o.ExpiresAt.IsZero() {
		faults = append(faults, errors.New("expires_at is missing"))
	}
	return errors.Join(faults...)
}
