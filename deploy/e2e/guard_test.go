package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/unloop/unloop/schemas/client"
)

// A loop that a guard around a tool saw first goes on as the same incident in the prompts
// of the same run, with the same counts.
func TestALoopOfAGuardGoesOnThroughTheGateway(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t))
	c, err := client.New(s.URL(), client.WithAPIKey("sk-one"))
	if err != nil {
		t.Fatal(err)
	}
	run := c.Run(client.ToolCall{Session: "run-1"}, func(err error) { t.Error(err) })
	var warned *client.ToolDecision
	for range 3 {
		warned = run.Before(t.Context(), "weather", map[string]any{})
		run.After(t.Context(), "weather", map[string]any{}, "It is sunny in all of the country.", nil)
	}
	if warned == nil || warned.Action != "warn" || warned.Counts.Streak != 3 || warned.LoopID == "" {
		t.Fatalf("the guard's third call: %+v", warned)
	}
	header := run.Header()
	header.Set("Authorization", "Bearer sk-one")
	for _, c := range []struct {
		n    int
		want string
	}{{3, "200 hint 3"}, {5, "429 reject 5"}} {
		n, want := c.n, c.want
		got := send(t, s.URL(), call{method: http.MethodPost, path: "/v1/chat/completions", header: header, body: rounds(n)})
		if answer := fmt.Sprint(got.status, " ", got.header.Get("X-Loop-Action"), " ", got.header.Get("X-Loop-Count")); answer != want {
			t.Errorf("a prompt with %d calls: %s, want %s", n, answer, want)
		}
		if n < 5 {
			continue
		}
		var refused struct{ Detail loopDetail }
		if err := json.Unmarshal(got.body, &refused); err != nil || refused.Detail.LoopID != warned.LoopID {
			t.Errorf("loop %q at the guard, %q at the gateway, %v", warned.LoopID, refused.Detail.LoopID, err)
		}
	}
}
