package bundle

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/unloop/unloop/schemas/glob"
	"github.com/unloop/unloop/schemas/policy"
)

//go:embed prices.yaml
var pricesFile []byte

// PriceTable has prices for models without one in the bundle.
type PriceTable struct {
	// Date is the day of the prices, such as 2026-01-31.
	Date string
	// Models has the prices by model name without a date at its end.
	Models map[string]policy.Price
}

// BuiltinPrices returns the built-in price table, which must not be changed.
var BuiltinPrices = sync.OnceValue(func() *PriceTable {
	table, err := parsePrices(pricesFile)
	if err != nil {
		return &PriceTable{} // impossible: tests parse the embedded file
	}
	return table
})

func parsePrices(text []byte) (*PriceTable, error) {
	var file struct {
		Date   string
		Models map[string]struct {
			Input  float64
			Cached *float64
			Output float64
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("read price table: %w", err)
	}
	table := &PriceTable{Date: file.Date, Models: make(map[string]policy.Price, len(file.Models))}
	for name, p := range file.Models {
		table.Models[name] = policy.Price{Input: p.Input, CachedInput: p.Cached, Output: p.Output}
	}
	return table, nil
}

// Price returns the price of a model. The name may have a provider and a slash before it,
// and a date, a version or "latest" at its end.
func (t *PriceTable) Price(model string) (policy.Price, bool) {
	name := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	for name != "" {
		if p, known := t.Models[name]; known {
			return p, true
		}
		short := withoutVersion(name)
		if short == name {
			break
		}
		name = short
	}
	return policy.Price{}, false
}

// withoutVersion returns a model's name without the last part of its version, if it has one.
func withoutVersion(name string) string {
	if base, _, found := strings.Cut(name, "@"); found {
		return base
	}
	for _, suffix := range []string{"-latest", "-preview", "-exp"} {
		if base, found := strings.CutSuffix(name, suffix); found {
			return base
		}
	}
	i := strings.LastIndexByte(name, '-')
	if i > 0 && len(name)-i > 2 && // a model's own number has one digit
		strings.Trim(name[i+1:], "0123456789") == "" {
		return name[:i] // a date, or a part of one
	}
	return name
}

type modelPrice struct {
	glob  string
	price policy.Price
}

// compilePrices returns the prices with the most specific glob first: the one with the most
// literal characters.
func compilePrices(prices map[string]policy.Price) []modelPrice {
	compiled := make([]modelPrice, 0, len(prices))
	for _, models := range slices.Sorted(maps.Keys(prices)) {
		compiled = append(compiled, modelPrice{models, prices[models]})
	}
	slices.SortStableFunc(compiled, func(a, b modelPrice) int { return glob.Literals(b.glob) - glob.Literals(a.glob) })
	return compiled
}

// Price returns the price of a model in the bundle or else in the built-in table; false if
// neither has one.
func (s *Set) Price(model string) (policy.Price, bool) {
	if p, ok := s.ownPrice(model); ok {
		return p, true
	}
	return BuiltinPrices().Price(model)
}

// PriceSource returns the source of a model's price; "" if there is none.
func (s *Set) PriceSource(model string) string {
	if _, ok := s.ownPrice(model); ok {
		return "the bundle"
	}
	if _, ok := BuiltinPrices().Price(model); ok {
		return "the built-in table of " + BuiltinPrices().Date
	}
	return ""
}

func (s *Set) ownPrice(model string) (policy.Price, bool) {
	for _, p := range s.prices {
		if glob.Match(p.glob, model) {
			return p.price, true
		}
	}
	return policy.Price{}, false
}
