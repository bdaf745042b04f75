package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/unloop/unloop/deploy/scripted"
)

// The AI SDK sends the ids of its calls in place of the calls. An agent that asks for
// another city each time is not stopped, although the tool says the same; one that
// asks for the same city is.
func TestAgentsOfTheAISDKAreJudgedByTheCallsThatTheyReferTo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		city func(n int) string
		stop bool
	}{
		"another city each time": {func(n int) string { return strings.Repeat("O", n) + "slo" }, false},
		"one city":               {func(int) string { return "Oslo" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := serve(t, func(r scripted.Request) scripted.Reply {
				if r.Number > 12 {
					return scripted.Text("It is sunny.")
				}
				return scripted.Tools(scripted.ToolCall{ID: fmt.Sprint("call_", r.Number), Name: "weather", Arguments: fmt.Sprintf(`{"city":%q}`, c.city(r.Number))})
			})
			s := start(t, upstream.url)
			var got struct {
				Steps, Status, Sent int
				Text                string
			}
			if err := json.Unmarshal([]byte(runNode(t, s.URL(), "aisdk", "agent", "What is the weather?")), &got); err != nil {
				t.Fatal(err)
			}
			if stopped := got.Status == http.StatusTooManyRequests; stopped != c.stop || !c.stop && got.Steps != 13 {
				t.Errorf("got %+v after %d requests", got, got.Sent)
			}
			if n := metric(t, s, "unloop_gateway_unknown_calls_total"); n != 0 {
				t.Errorf("%v requests have unknown calls", n)
			}
			requests := upstream.Requests()
			if second := string(requests[1].Body); !strings.Contains(second, "item_reference") || strings.Contains(second, `"function_call"`) {
				t.Errorf("the SDK does not refer to its calls: %s", second)
			}
		})
	}
}
