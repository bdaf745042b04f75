package gateway

import "github.com/unloop/unloop/gateway/internal/rules/bundle"

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
