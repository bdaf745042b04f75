package conformance

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/provider/chat"
	"github.com/unloop/unloop/gateway/internal/provider/gemini"
	"github.com/unloop/unloop/gateway/internal/provider/responses"
)

// What is allocated depends on what is asked for, and not on how long the body is.
// Not parallel: it counts allocations.
func TestAllocationsDoNotGrowWithTheBody(t *testing.T) {
	for _, p := range all {
		allocations := func(size int) float64 {
			c := session(size)
			c.System = "You fix code."
			body := Formats[p.Name()](c)
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

// hostile bodies, with n of something, that a careless parser needs n² steps for.
var hostile = []struct {
	name   string
	format provider.Provider
	body   func(n int) string
}{
	{"results in the wrong order", anthropic.Messages{}, func(n int) string {
		calls := many(n, func(i int) string { return fmt.Sprintf(`{"type":"tool_use","id":"c%d","name":"f","input":{}}`, i) })
		results := many(n, func(i int) string {
			return fmt.Sprintf(`{"type":"tool_result","tool_use_id":"c%d","content":""}`, n-1-i)
		})
		return `{"messages":[{"role":"assistant","content":[` + calls + `]},{"role":"user","content":[` + results + `]}]}`
	}},
	{"names", chat.Chat{}, func(n int) string {
		return `{"messages":[{"role":"user","content":"x"}],` + many(n, func(i int) string { return fmt.Sprintf(`"n%d":0`, i) }) + `}`
	}},
	{"tiny messages", anthropic.Messages{}, func(n int) string {
		return `{"messages":[` + many(n, func(int) string { return `{"role":"user","content":"x"}` }) + `]}`
	}},
	{"tiny rounds", chat.Chat{}, func(n int) string {
		return `{"messages":[` + many(n, func(i int) string {
			return fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":"%d","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"%d","content":"x"}`, i, i)
		}) + `]}`
	}},
	{"outputs", responses.Responses{}, func(n int) string {
		return `{"input":[` + many(n, func(i int) string {
			return fmt.Sprintf(`{"type":"function_call_output","call_id":"%d","output":""}`, i)
		}) + `]}`
	}},
	{"open calls", responses.Responses{}, func(n int) string {
		return `{"input":[` + many(n, func(i int) string { return fmt.Sprintf(`{"type":"function_call","call_id":"%d","name":"f"}`, i) }) + `]}`
	}},
	{"parts", gemini.Generate{}, func(n int) string {
		return `{"contents":[{"role":"user","parts":[` + many(n, func(int) string { return `{"text":"x"}` }) + `]}]}`
	}},
	{"escapes", chat.Chat{}, func(n int) string {
		return `{"messages":[{"role":"user","content":"` + strings.Repeat(`\u00e9\n`, n) + `"}]}`
	}},
}

func many(n int, one func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = one(i)
	}
	return strings.Join(list, ",")
}

// Eight times the body may take some more than eight times the work, but not
// sixty-four times. What is measured is the processor's time for this thread, so
// that other work on the machine does not count, in the quickest of a few runs.
func TestTheTimeForHostileBodiesGrowsWithTheirSize(t *testing.T) {
	for _, h := range hostile {
		const n, times, most = 1000, 8, 32
		small, large := []byte(h.body(n)), []byte(h.body(times*n))
		ratio := 0.0
		for range 5 { // a garbage collection may have come in between
			if ratio = float64(quickest(t, h.format, large)) / float64(quickest(t, h.format, small)); ratio < most {
				break
			}
		}
		if ratio >= most {
			t.Errorf("%s: %d times the body takes %.0f times as long", h.name, times, ratio)
		}
	}
}

func quickest(t *testing.T, p provider.Provider, body []byte) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := time.Duration(math.MaxInt64)
	for range 3 {
		started := worked(t)
		prompt, err := p.Parse(body, provider.Options{Tail: 3, Items: 60})
		if err != nil || prompt == nil {
			t.Fatalf("%v, %v", prompt, err)
		}
		prompt.Transcript.History(provider.Rules{})
		prompt.Transcript.Exchange(1000)
		if _, _, err := p.Repair(body); err != nil {
			t.Fatal(err)
		}
		best = min(best, worked(t)-started)
	}
	return best
}

// worked is the processor's time that this thread has had, to the nanosecond:
// what getrusage(2) says grows by whole ticks.
func worked(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Nano())
}
