package providertest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/provider/chat"
	"github.com/unloop/unloop/gateway/internal/provider/gemini"
	"github.com/unloop/unloop/gateway/internal/provider/providertest"
	"github.com/unloop/unloop/gateway/internal/provider/responses"
)

// What is allocated depends on what is asked for, and not on how long the body is.
// Not parallel: it counts allocations.
func TestAllocationsDoNotGrowWithTheBody(t *testing.T) {
	for _, p := range all {
		allocations := func(size int) float64 {
			c := session(size)
			c.System = "You fix code."
			body := providertest.Formats[p.Name()](c)
			return testing.AllocsPerRun(5, func() {
				if _, err := p.Parse(body, provider.Options{Tail: 3, Items: 20}); err != nil {
					t.Error(err)
				}
			})
		}
		if small, large := allocations(256<<10), allocations(4<<20); large > small+10 {
			t.Errorf("%s: %v allocations for 256 KB, %v for 4 MB", p.Name(), small, large)
		}
	}
}

type hostileBody struct {
	name   string
	format provider.Provider
	body   string
}

// hostile are bodies of some megabytes that would be slow to read by a careless
// parser.
func hostile() []hostileBody {
	many := func(n int, one func(i int) string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(one(i))
		}
		return b.String()
	}
	calls := many(40_000, func(i int) string { return fmt.Sprintf(`{"type":"tool_use","id":"c%d","name":"f","input":{}}`, i) })
	results := many(40_000, func(i int) string {
		return fmt.Sprintf(`{"type":"tool_result","tool_use_id":"c%d","content":""}`, 39_999-i)
	})
	return []hostileBody{
		{"results in the wrong order", anthropic.Messages{}, `{"messages":[{"role":"assistant","content":[` + calls + `]},{"role":"user","content":[` + results + `]}]}`},
		{"names", chat.Chat{}, `{"messages":[{"role":"user","content":"x"}],` + many(200_000, func(i int) string { return fmt.Sprintf(`"n%d":0`, i) }) + `}`},
		{"tiny messages", anthropic.Messages{}, `{"messages":[` + many(200_000, func(int) string { return `{"role":"user","content":"x"}` }) + `]}`},
		{"tiny rounds", chat.Chat{}, `{"messages":[` + many(20_000, func(i int) string {
			return fmt.Sprintf(`{"role":"assistant","content":"","tool_calls":[{"id":"%d","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"%d","content":"x"}`, i, i)
		}) + `]}`},
		{"items", responses.Responses{}, `{"input":[` + many(60_000, func(i int) string {
			return fmt.Sprintf(`{"type":"function_call_output","call_id":"%d","output":""}`, i)
		}) + `]}`},
		{"open calls", responses.Responses{}, `{"input":[` + many(60_000, func(i int) string {
			return fmt.Sprintf(`{"type":"function_call","call_id":"%d","name":"f"}`, i)
		}) + `]}`},
		{"parts", gemini.Generate{}, `{"contents":[{"role":"user","parts":[` + many(100_000, func(int) string { return `{"text":"x"}` }) + `]}]}`},
		{"escapes", chat.Chat{}, `{"messages":[{"role":"user","content":"` + strings.Repeat(`\u00e9\n`, 500_000) + `"}]}`},
	}
}

func TestHostileBodiesTakeNoLongerThanTheirSizeAllows(t *testing.T) {
	t.Parallel()
	const limit = 30 * time.Second // a quadratic parser needs minutes, ours under a second
	for _, h := range hostile() {
		started := time.Now()
		prompt, err := h.format.Parse([]byte(h.body), provider.Options{Tail: 3, Items: 60})
		if err != nil || prompt == nil {
			t.Fatalf("%s: %v, %v", h.name, prompt, err)
		}
		prompt.Transcript.History(provider.Rules{})
		prompt.Transcript.Exchange(1000)
		if _, _, err := h.format.Repair([]byte(h.body)); err != nil {
			t.Fatal(err)
		}
		took := time.Since(started)
		t.Logf("%s: %v", h.name, took)
		if took > limit {
			t.Errorf("%s: %v", h.name, took)
		}
	}
}
