package policy

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"
)

// The products that Bundle.Compat names.
const (
	CompatFairvisor     = "fairvisor"
	CompatAgentSentinel = "agent-sentinel"
	CompatAISG          = "aisg"
)

// Bundle is one version of all policies. Parse fills in the defaults. A Bundle made in Go
// starts from the Default… constructors and is checked with Validate.
type Bundle struct {
	BundleVersion      int64            `json:"bundle_version" check:"required,min=1" doc:"Must increase with each change of the bundle."`
	IssuedAt           time.Time        `json:"issued_at,omitzero" doc:"When the bundle was made (RFC 3339)."`
	ExpiresAt          time.Time        `json:"expires_at,omitzero" doc:"Time from which the bundle is no longer loaded (RFC 3339)."`
	GlobalShadow       Override         `json:"global_shadow,omitzero" doc:"Treats every policy as if its mode were shadow."`
	KillSwitchOverride Override         `json:"kill_switch_override,omitzero" doc:"Turns every kill switch off."`
	KillSwitches       []KillSwitch     `json:"kill_switches,omitempty" doc:"Requests to refuse before any check."`
	Compat             Strings          `json:"compat,omitempty" check:"one=fairvisor|agent-sentinel|aisg" doc:"Products to be compatible with: fairvisor sends its response headers, and a selector without a path matches nothing; agent-sentinel compares all prompts of a tenant, and one match is enough; aisg counts every prompt of a caller."`
	Prices             map[string]Price `json:"prices,omitempty" doc:"Prices in US dollars. Keys are globs over model names; the longest match applies. Other models have the built-in prices (unloop policy prices)."`
	JWT                *JWT             `json:"jwt,omitempty" doc:"How tokens are verified before their claims are used."`
	TrustedProxies     []netip.Prefix   `json:"trusted_proxies,omitempty" doc:"Networks of proxies that are trusted to set X-Forwarded-For (ip:address), X-Country-Code (ip:country), X-ASN (ip:asn), X-ASN-Type (ip:type) and X-Tor-Exit (ip:tor)."`
	Defaults           *Ignored         `json:"defaults,omitempty" doc:"Accepted for Fairvisor bundles; has no effect there or here."`
	Policies           []Entry          `json:"policies" check:"required" doc:"All policies that match a request apply to it."`

	source   []byte
	lines    map[string]int // of the fields that were read
	warnings []Fault
}

// Warnings returns what Parse accepted but an operator should know: repaired thresholds,
// parts without effect, ignored keys.
func (b *Bundle) Warnings() []Fault { return b.warnings }

// Version names the bundle, such as 7-3fa9c1d2: its number and the first 4 bytes of
// its SHA-256. A bundle that was read is hashed as it was written, so that every
// version of this software gives it the same name.
func (b *Bundle) Version() (string, error) {
	source := b.source
	if source == nil {
		var err error
		if source, err = json.Marshal(b); err != nil {
			return "", fmt.Errorf("hash the bundle: %w", err)
		}
	}
	sum := sha256.Sum256(source)
	return fmt.Sprintf("%d-%x", b.BundleVersion, sum[:4]), nil
}

// ExpiredAt reports whether the bundle must not be loaded at that time. A
// bundle already in force stays in force, as in Fairvisor.
func (b *Bundle) ExpiredAt(now time.Time) bool {
	return !b.ExpiresAt.IsZero() && !now.Before(b.ExpiresAt)
}

// Entry is one policy of a bundle.
type Entry struct {
	ID   string `json:"id" check:"required,len=128" doc:"Unique name, used in events, metrics and counters."`
	Spec Spec   `json:"spec" check:"required" doc:"Detectors and rules of the policy."`
}

// Spec is the body of a policy. A detector that is absent is off.
type Spec struct {
	Selector       Selector        `json:"selector,omitzero" doc:"Requests that the policy applies to; an empty selector matches all."`
	Mode           string          `json:"mode" check:"one=enforce|shadow" default:"enforce" doc:"shadow evaluates and reports, and changes nothing."`
	FailureMode    string          `json:"failure_mode" check:"one=open|closed" default:"open" doc:"What happens to a request that could not be checked in time."`
	Reject         RejectAnswer    `json:"reject,omitempty" doc:"Answer to requests that a detector of the policy rejects: auto (whatever ends the client), synthetic (a message in place of the model's), or the status of an error, such as 429. Default: the gateway's --reject, which is auto by default."`
	Holdout        float64         `json:"holdout,omitempty" check:"min=0,max=1" doc:"Share of sessions (0 to 1) for which an enforced policy only watches, as a control group."`
	IncludeExcerpt bool            `json:"include_excerpt,omitempty" doc:"Adds to events an excerpt (at most 200 characters, likely secrets masked) of the exchange in which a loop was found. Otherwise events contain no text."`
	Hint           HintText        `json:"hint" doc:"Text of a hint to the model, and its place in the request."`
	LoopDetection  *LoopDetection  `json:"loop_detection,omitempty" doc:"The request detector: identical HTTP requests."`
	Prompt         *Prompt         `json:"prompt,omitempty" doc:"The prompt detector: identical newest messages."`
	Tool           *Tool           `json:"tool,omitempty" doc:"The tool detector: the same call with the same result."`
	Cycle          *Cycle          `json:"cycle,omitempty" doc:"The cycle detector: A-B-A-B and longer periods of tool rounds."`
	Semantic       *Semantic       `json:"semantic,omitempty" doc:"The semantic detector: the same exchange in other words."`
	SessionRepair  *SessionRepair  `json:"session_repair,omitempty" doc:"Repairs broken tool histories before they are forwarded."`
	CircuitBreaker *CircuitBreaker `json:"circuit_breaker,omitempty" doc:"Fairvisor's spend rate breaker."`
	Rules          []Rule          `json:"rules,omitempty" doc:"Rate, token and cost limits."`
	FallbackLimit  *Rule           `json:"fallback_limit,omitempty" doc:"Rule that applies if no other rule matches."`
}

// Selector selects the requests that a policy applies to. Every given dimension must
// match, except that pathExact and pathPrefix are alternatives. In a list one match is
// enough.
type Selector struct {
	PathPrefix Strings           `json:"pathPrefix,omitempty" check:"path" doc:"Path prefixes; a prefix ends at a path segment, so /v1/ matches /v1/x and not /v1beta."`
	PathExact  Strings           `json:"pathExact,omitempty" check:"path" doc:"Whole paths."`
	Methods    Strings           `json:"methods,omitempty" check:"token" doc:"HTTP methods."`
	Hosts      Strings           `json:"hosts,omitempty" check:"nonempty" doc:"Host names without port; letter case does not matter."`
	Headers    map[string]string `json:"headers,omitempty" doc:"Header values by name; * and ? are wildcards."`
	Models     Strings           `json:"models,omitempty" check:"nonempty" doc:"Globs over model names: * and ? are wildcards."`
	Upstream   Strings           `json:"upstream,omitempty" check:"nonempty" doc:"Names of upstreams."`
	Tenant     Strings           `json:"tenant,omitempty" check:"nonempty" doc:"Tenants."`
	Project    Strings           `json:"project,omitempty" check:"nonempty" doc:"Projects."`
	Caller     Strings           `json:"caller,omitempty" check:"nonempty" doc:"Caller hashes, as events show them."`
}

// Override is a switch for the whole bundle, with an optional end. In a
// bundle it is a boolean or an object.
type Override struct {
	Enabled   bool      `json:"enabled" doc:"Whether the override is on."`
	Reason    string    `json:"reason,omitempty" check:"len=256" doc:"Reason, for later readers."`
	ExpiresAt time.Time `json:"expires_at,omitzero" doc:"Time at which it turns off (RFC 3339)."`
}

// ActiveAt reports whether the override is on at that time.
func (o Override) ActiveAt(now time.Time) bool {
	return o.Enabled && (o.ExpiresAt.IsZero() || now.Before(o.ExpiresAt))
}

// KillSwitch refuses every request in which a descriptor has a value.
type KillSwitch struct {
	ScopeKey   string    `json:"scope_key" check:"required,descriptor" doc:"Descriptor to compare, such as jwt:org_id or tenant."`
	ScopeValue string    `json:"scope_value" check:"required" doc:"Value to refuse."`
	Reason     string    `json:"reason,omitempty" check:"len=256" doc:"Reason. The answer contains it."`
	Route      string    `json:"route,omitempty" check:"path" doc:"Only this path."`
	ExpiresAt  time.Time `json:"expires_at,omitzero" doc:"Time at which it ends (RFC 3339)."`
}

// ActiveAt reports whether the kill switch has an effect at that time.
func (k *KillSwitch) ActiveAt(now time.Time) bool {
	return k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt)
}

// Price is what a model costs, in US dollars for a million tokens.
type Price struct {
	Input       float64  `json:"input_usd_per_million" check:"required,min=0" doc:"Input tokens."`
	Output      float64  `json:"output_usd_per_million" check:"min=0" doc:"Output tokens."`
	CachedInput *float64 `json:"cached_input_usd_per_million,omitempty" check:"min=0" doc:"Input tokens read from a cache. Default: the price of input tokens."`
}

// USD returns the price of one request in US dollars. The input tokens include the cached
// ones.
func (p Price) USD(input, cached, output int) float64 {
	cachedPrice := p.Input
	if p.CachedInput != nil {
		cachedPrice = *p.CachedInput
	}
	total := float64(input-cached)*p.Input + float64(cached)*cachedPrice + float64(output)*p.Output
	return total / 1e6
}
