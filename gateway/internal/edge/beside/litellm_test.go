package beside

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// A loop of one tool takes that tool away. A run that is to end is blocked, whatever other
// tools it has.
func TestLiteLLMBlocksARunThatEnds(t *testing.T) {
	t.Parallel()
	const body = `{"texts":["go on"],"tools":[{"function":{"name":"weather"}},{"function":{"name":"news"}}]}`
	for _, c := range []struct {
		ends bool
		want string
	}{{false, `"tools":[{"function":{"name":"news"}}]`}, {true, `"action":"BLOCKED","blocked_reason":"stopped"`}} {
		w := httptest.NewRecorder()
		liteLLM{}.answer(w, []byte(body), verdict{stops: true, ends: c.ends, message: "stopped", tool: "weather"})
		if got := w.Body.String(); !strings.Contains(got, c.want) {
			t.Errorf("ends %v: %s, want %s", c.ends, got, c.want)
		}
	}
}
