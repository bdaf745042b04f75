package cli

import (
	"maps"
	"slices"
	"strconv"

	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/gateway"
)

type policyPricesCmd struct{ formatted }

// Run prints the built-in prices, which apply to models without a price in the bundle.
func (c *policyPricesCmd) Run(std streams) error {
	table := gateway.BuiltinPrices()
	t := terminal.NewTable(terminal.Column{Name: "INPUT", Right: true}, terminal.Column{Name: "CACHED", Right: true}, terminal.Column{Name: "OUTPUT", Right: true}, terminal.Column{Name: "MODEL"})
	for _, name := range slices.Sorted(maps.Keys(table.Models)) {
		p, cached := table.Models[name], ""
		if p.CachedInput != nil {
			cached = perMillion(*p.CachedInput)
		}
		t.Row(perMillion(p.Input), cached, perMillion(p.Output), name)
	}
	return c.show(std, table, func(out *printer) {
		out.printf("US dollars per million tokens, as of %s; prices in a bundle take precedence.\n", table.Date)
		out.table(t)
	})
}

func perMillion(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
