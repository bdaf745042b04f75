package bundle_test

import (
	"testing"
	"time"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/schemas/policy"
)

func TestBuiltinPricesAreSound(t *testing.T) {
	t.Parallel()
	table := bundle.BuiltinPrices()
	if _, err := time.Parse(time.DateOnly, table.Date); err != nil || len(table.Models) < 40 {
		t.Errorf("date %q, %d models", table.Date, len(table.Models))
	}
	for name, p := range table.Models {
		if p.Input <= 0 || p.Output < p.Input || p.CachedInput != nil && (*p.CachedInput <= 0 || *p.CachedInput > p.Input) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestPriceOfAModelAsItIsNamed(t *testing.T) {
	t.Parallel()
	table := bundle.BuiltinPrices()
	for name, want := range map[string]string{
		"gpt-4o": "gpt-4o", "gpt-4o-2024-08-06": "gpt-4o", "gpt-4o-mini-2024-07-18": "gpt-4o-mini", "openai/gpt-4o-mini": "gpt-4o-mini",
		"claude-sonnet-4-5-20250929": "claude-sonnet-4-5", "claude-sonnet-4-20250514": "claude-sonnet-4", "claude-3-5-haiku-latest": "claude-3-5-haiku",
		"claude-sonnet-4-5@20250929": "claude-sonnet-4-5", "anthropic/claude-opus-4-1": "claude-opus-4-1", "models/gemini-2.5-pro": "gemini-2.5-pro",
		"gemini-2.5-flash-preview-09-2025": "gemini-2.5-flash", "gemini-3-pro-preview": "gemini-3-pro", "GPT-5": "gpt-5",
		"gpt-4o-realtime-preview": "", "gpt-7": "", "my-own": "", "": "", "claude-sonnet": "", "gpt-4o-audio": "", "/": "",
	} {
		got, ok := table.Price(name)
		if ok != (want != "") || ok && (got.Input != table.Models[want].Input || got.Output != table.Models[want].Output) {
			t.Errorf("%s: %+v, %v; want that of %q", name, got, ok, want)
		}
	}
}

func TestBundlesPricesComeBeforeTheBuiltinOnes(t *testing.T) {
	t.Parallel()
	b, err := policy.Parse([]byte(`{bundle_version: 1, prices: {"gpt-4o*": {input_usd_per_million: 7, output_usd_per_million: 8}}, policies: []}`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := bundle.Compile(b)
	if err != nil {
		t.Fatal(err)
	}
	builtin := bundle.BuiltinPrices()
	for model, want := range map[string]float64{"gpt-4o-2024-08-06": 7, "gpt-4.1": builtin.Models["gpt-4.1"].Input} {
		if p, ok := set.Price(model); !ok || p.Input != want {
			t.Errorf("%s: %+v, %v; want %g", model, p, ok, want)
		}
	}
	if source := set.PriceSource("gpt-4o"); source != "the bundle" {
		t.Errorf("gpt-4o is priced by %q", source)
	}
	if source := set.PriceSource("gpt-4.1"); source != "the built-in table of "+builtin.Date {
		t.Errorf("gpt-4.1 is priced by %q", source)
	}
	if source := set.PriceSource("my-own"); source != "" {
		t.Errorf("my-own is priced by %q", source)
	}
}
