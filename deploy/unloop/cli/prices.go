package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/unloop/unloop/gateway"
)

type policyPricesCmd struct{}

// Run prints the prices of models for which a bundle has none.
func (c *policyPricesCmd) Run(io streams) error {
	table := gateway.BuiltinPrices()
	fmt.Fprintf(io.out, "US dollars for a million tokens on %s; a bundle's prices come first.\n", table.Date)
	w := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "INPUT\tCACHED\tOUTPUT\t  MODEL")
	for _, name := range slices.Sorted(maps.Keys(table.Models)) {
		p, cached := table.Models[name], "-"
		if p.CachedInput != nil {
			cached = perMillion(*p.CachedInput)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t  %s\n", perMillion(p.Input), cached, perMillion(p.Output), name)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print prices: %w", err)
	}
	return nil
}

func perMillion(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
