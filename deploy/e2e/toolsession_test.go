package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// onlyTools leaves out the detector that compares whole prompts.
const onlyTools = "bundle_version: 1\npolicies:\n  - {id: tools, spec: {tool: {}}}\n"

// A client that names another session with each request shows its history all the
// same, and the count goes by that.
func TestNewSessionIDWithEachRequestHidesNoToolLoop(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, onlyTools)).URL()
	var got []string
	for n := range 7 {
		body := toolSession(n, always("{}"), always("same"))
		a := send(t, url, chat(body).with("X-Session-ID", fmt.Sprint("session-", n)))
		got = append(got, fmt.Sprint(a.status, " ", a.header.Get("X-Loop-Action")))
	}
	want := []string{"200 ", "200 ", "200 ", "200 hint", "200 hint", "429 reject", "429 reject"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("by rounds in the history (-want +got):\n%s", diff)
	}
}

func TestBlockedToolLoopLeavesOtherSessionsAndAgentsAlone(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, onlyTools)).URL()
	for n := range 6 {
		send(t, url, chat(toolSession(n, always("{}"), always("same"))).with("X-Session-ID", "one"))
	}
	blocked, begun := toolSession(5, always("{}"), always("same")), toolSession(1, always("{}"), always("same"))
	subAgent := strings.Replace(begun, `"messages":[`, `"messages":[{"role":"system","content":"You search."},`, 1)
	for name, c := range map[string]struct {
		body, session string
		want          int
	}{
		"the session":         {blocked, "one", http.StatusTooManyRequests},
		"another session":     {begun, "two", http.StatusOK},
		"its other sub-agent": {subAgent, "one", http.StatusOK},
	} {
		if a := send(t, url, chat(c.body).with("X-Session-ID", c.session)); a.status != c.want {
			t.Errorf("%s: status %d, want %d", name, a.status, c.want)
		}
	}
	// The sub-agent's rounds are counted apart, not added to the other's.
	for n := 1; n <= 2; n++ {
		body := strings.Replace(toolSession(n, always("{}"), always("same")), `"messages":[`, `"messages":[{"role":"system","content":"You read."},`, 1)
		if a := send(t, url, chat(body).with("X-Session-ID", "one")); a.header.Get("X-Loop-Action") != "" {
			t.Errorf("round %d of a sub-agent: %s", n, a.header.Get("X-Loop-Action"))
		}
	}
}
