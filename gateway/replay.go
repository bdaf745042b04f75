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
	// Origin is what is known of a recorded request besides its bytes.
	Origin = replay.Origin
	// Evaluation is what a gateway would do with a request before it asks a detector.
	Evaluation = replay.Evaluation
	// Conversation is a conversation whose requests are evaluated by the messages that they
	// add.
	Conversation = replay.Conversation
	// Part is a request of a Conversation, without the messages of earlier ones.
	Part = replay.Part
	// Outcome is the result of a request.
	Outcome = replay.Outcome
	// Explanation says what a gateway would do with a request, and why.
	Explanation = explain.Explanation
	// PolicyExplained is a policy that applies to the request.
	PolicyExplained = explain.Policy
	// Policies is a compiled bundle.
	Policies = bundle.Set
	// Policy is one of its policies.
	Policy = bundle.Policy
	// PriceTable has the prices of models that a bundle does not price.
	PriceTable = bundle.PriceTable
	// RuleExplained is a rule of a policy that applies to the request.
	RuleExplained = explain.Rule
)

// ShownMessages is the number of newest messages that a Replayer's Rounds reads.
const ShownMessages = replay.ShownMessages

// BuiltinPrices returns the price table that comes with the gateway. It must not be
// changed.
func BuiltinPrices() *PriceTable { return bundle.BuiltinPrices() }

// NewReplayer returns a replayer for the configured bundle, or for the default policy. now
// returns the time of the current request.
func NewReplayer(cfg Config, now func() time.Time) (*Replayer, error) {
	key, err := cfg.hashKey()
	if err != nil {
		return nil, err
	}
	return replay.New(cfg.deciding(key), now)
}

// Uncounted reports whether a request whose answer has this status does not count.
func Uncounted(status int) bool { return replay.Uncounted(status) }

// Explain explains the decision on a request, without counting it. The description is the
// body of a POST /unloop/v1/check with an extra field for headers. With a nil js, Explain
// uses only the configured bundle; otherwise also the trusted records of the running system.
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
