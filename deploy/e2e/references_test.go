package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// referring is the request after n calls of a client that refers to the provider's
// items, and brings its results alone.
func referring(n int, result func(n int) string) call {
	var input strings.Builder
	input.WriteString(`{"role":"user","content":[{"type":"input_text","text":"go"}]}`)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&input, `,{"type":"item_reference","id":"rs_%d"},{"type":"item_reference","id":"fc_%d"},{"type":"function_call_output","call_id":"call_%d","output":%q}`,
			i, i, i, result(i))
	}
	c := chat(`{"model":"m","store":true,"tools":[{"type":"function","name":"read"}],"input":[` + input.String() + `]}`)
	c.path = "/v1/responses"
	return c
}

func same(int) string { return "same" }

// A client that refers to its calls by their items' ids, each time at another gateway,
// is judged as one that sends them: an agent that makes progress is not stopped, and
// one that repeats a call is.
func TestCallsThatAreReferredToAreSeen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arguments func(n int) string
		result    func(n int) string
		want      []int
	}{
		"a loop":                {func(int) string { return `{"path":"a"}` }, same, ok(5, http.StatusTooManyRequests)},
		"another file a turn":   {func(n int) string { return fmt.Sprintf(`{"path":"file %c"}`, 'a'+n) }, func(int) string { return "File written." }, ok(14)},
		"another result a turn": {func(int) string { return `{"path":"a"}` }, func(n int) string { return "line " + strings.Repeat("x", n) }, ok(14)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := keep(t, c.arguments)
			edits := policies(t, "bundle_version: 1\npolicies:\n  - {id: all, spec: {prompt: {}, tool: {}, cycle: {}, session_repair: {enabled: true}}}\n")
			first := start(t, k.url, edits)
			gateways := []*system.System{first, start(t, k.url, edits, join(first))}
			var got []int
			for n := range c.want {
				a := send(t, gateways[n%2].URL(), referring(n, c.result))
				got = append(got, a.status)
				if repaired := a.header.Get("X-Loop-Repaired"); repaired != "" {
					t.Errorf("round %d was repaired: %s", n, repaired)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("by round (-want +got):\n%s", diff)
			}
			for _, s := range gateways {
				if n := metric(t, s, "unloop_gateway_unknown_calls_total"); n != 0 {
					t.Errorf("%v calls were not known", n)
				}
			}
		})
	}
}
