package gateway

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
)

type (
	// Policies is a bundle made ready for requests.
	Policies = bundle.Set
	// Policy is one of its policies.
	Policy = bundle.Policy
	// PriceTable is what models cost that a bundle does not price.
	PriceTable = bundle.PriceTable
)

// BuiltinPrices returns the price table that comes with the gateway. It must not be
// changed.
func BuiltinPrices() *PriceTable { return bundle.BuiltinPrices() }

func newPolicies(cfg Config, now func() time.Time, log *slog.Logger, reg prometheus.Registerer) (*policystore.Policies, error) {
	return policystore.New(policystore.Config{File: cfg.Policies, AllowKeysFrom: cfg.JWKSAllowCIDR}, now, log, reg)
}
