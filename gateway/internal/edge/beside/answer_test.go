package beside

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/edge/checkapi"
	"github.com/unloop/unloop/schemas/client"
)

// turns are the turns that are taken, or none to have.
type turns struct {
	checkapi.Decider
	busy         bool
	taken, given int
}

func (d *turns) Turn(*http.Request, int) (func(), *client.Error) {
	if d.busy {
		return nil, &client.Error{Status: http.StatusServiceUnavailable, Message: "all turns are taken"}
	}
	d.taken++
	return func() { d.given++ }, nil
}

// slow is a caller that reads its answer after all turns were given back.
type slow struct {
	*httptest.ResponseRecorder
	t *testing.T
	d *turns
}

func (s slow) Write(p []byte) (int, error) {
	if s.d.taken != s.d.given {
		s.t.Error("a turn lasts until the answer is read")
	}
	return s.ResponseRecorder.Write(p)
}

// Answers that repeat parts of their question are made in turn, and without a turn they stop all the
// same.
func TestAnswersAreMadeInTurn(t *testing.T) {
	t.Parallel()
	const body = `{"texts":["go on"],"tools":[{"function":{"name":"weather"}},{"function":{"name":"news"}}],"body":{"messages":[{"role":"user","content":"go on"}]}}`
	stop, hint := verdict{stops: true, message: "stopped", tool: "weather"}, verdict{message: "hint"}
	for name, c := range map[string]struct {
		by    caller
		v     verdict
		busy  bool
		turns int
		want  string
	}{
		"a stop":                        {liteLLM{}, stop, false, 1, `"tools":[{"function":{"name":"news"}}]`},
		"a stop without a turn":         {liteLLM{}, stop, true, 0, `"action":"BLOCKED","blocked_reason":"stopped"`},
		"a hint":                        {liteLLM{}, hint, false, 1, `"texts":["go on\n\nhint"]`},
		"a hint without a turn":         {liteLLM{}, hint, true, 0, `{"action":"NONE"}`},
		"agentgateway's stop":           {agentGateway{}, stop, true, 0, `"body":"stopped"`},
		"agentgateway's hint":           {agentGateway{}, hint, false, 1, `{"messages":[{"role":"user","content":"go on"},{"content":"hint","role":"system"}]}`},
		"agentgateway's without a turn": {agentGateway{}, hint, true, 0, `{"action":{}}`},
		"nothing to say":                {liteLLM{}, verdict{}, true, 0, `{"action":"NONE"}`},
		"nginx":                         {nginx{}, stop, true, 0, `"code":"recursive_loop_detected"`},
	} {
		d := &turns{busy: c.busy}
		w := slow{httptest.NewRecorder(), t, d}
		h := &Handler{api: checkapi.New(checkapi.Config{Decider: d})}
		h.answer(w, httptest.NewRequest(http.MethodPost, Path, nil), c.by, []byte(body), c.v)
		if got := w.Body.String(); !strings.Contains(got, c.want) || d.taken != c.turns || d.given != c.turns {
			t.Errorf("%s: %s after %d turns, want %s after %d", name, got, d.taken, c.want, c.turns)
		}
		if status := map[bool]int{true: http.StatusForbidden, false: http.StatusOK}[c.by == nginx{}]; w.Code != status {
			t.Errorf("%s: status %d, want %d", name, w.Code, status)
		}
	}
}
