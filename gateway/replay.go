package gateway

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/gateway/internal/decide/explain"
	"github.com/unloop/unloop/gateway/internal/edge/replay"
	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
	"github.com/unloop/unloop/schemas/kit/seal"
)

type (
	// Replayer makes the checks that a gateway would send about recorded requests.
	Replayer = replay.Replayer
	// Origin is what is known of a recorded request beside its bytes.
	Origin = replay.Origin
	// Evaluation is what a gateway would do with a request before it asks a detector.
	Evaluation = replay.Evaluation
	// Conversation is one whose requests are evaluated by what they add, which a Part says.
	Conversation = replay.Conversation
	// Part says how much of a request its body has.
	Part = replay.Part
	// Outcome is the result of a request.
	Outcome = replay.Outcome
	// Explanation says what a gateway would do with a request, and why.
	Explanation = explain.Explanation
	// PolicyExplained is a policy that applies to the request.
	PolicyExplained = explain.Policy
	// Policies is a bundle made ready for requests.
	Policies = bundle.Set
	// Policy is one of its policies.
	Policy = bundle.Policy
	// PriceTable is what models cost that a bundle does not price.
	PriceTable = bundle.PriceTable
	// RuleExplained is a rule of a policy that applies to the request.
	RuleExplained = explain.Rule
)

// ShownMessages is the number of newest messages that a Replayer's Rounds reads.
const ShownMessages = replay.ShownMessages

// BuiltinPrices returns the price table that comes with the gateway. It must not be
// changed.
func BuiltinPrices() *PriceTable { return bundle.BuiltinPrices() }

// NewReplayer returns a replayer by the configured bundle, or by the default policy. now is
// the time of the requests.
func NewReplayer(cfg Config, now func() time.Time) (*Replayer, error) {
	key, err := cfg.hashKey()
	if err != nil {
		return nil, err
	}
	return replay.New(cfg.deciding(key), now)
}

// Uncounted reports whether a request whose answer has this status does not count.
func Uncounted(status int) bool { return replay.Uncounted(status) }

// Explain explains a request, which is described as POST /unloop/v1/check takes it, with
// headers in a field of their own. It changes no counts. With a nil js it uses only the
// configured bundle, otherwise the trusted records of the running system.
func Explain(ctx context.Context, cfg Config, js jetstream.JetStream, trust seal.Trust, description []byte) (*Explanation, error) {
	key, err := cfg.hashKey()
	if err != nil {
		return nil, err
	}
	return replay.Explain(ctx, cfg.deciding(key), js, trust, description)
}

// deciding returns the part of the configuration that decides about requests.
func (c Config) deciding(key *[identity.KeySize]byte) *replay.Config {
	return &replay.Config{
		Upstreams: c.Upstream, Policies: c.policies(), Project: c.Project, Timeout: c.CheckTimeout, MaxInspectBytes: c.MaxInspectBytes, HashKey: key,
	}
}

func (c Config) policies() policystore.Config {
	return policystore.Config{File: c.Policies, AllowKeysFrom: c.JWKSAllowCIDR}
}
