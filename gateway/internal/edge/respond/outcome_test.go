package respond

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/policy"
)

func TestOutcomesAreWrittenInTheFormatOfTheRequest(t *testing.T) {
	t.Parallel()
	const synthetic = policy.RejectSynthetic
	finding := &checkpb.Finding{Detector: finding.Tool, Action: checkpb.Action_ACTION_REJECT}
	for name, c := range map[string]struct {
		finding   *checkpb.Finding
		reject    policy.RejectAnswer
		format    provider.Provider
		prompt    provider.Prompt
		status    int
		typ, says string
		cached    bool
		answered  float64
	}{
		"refusal": {
			finding, policy.RejectAuto, chat.Chat{}, provider.Prompt{},
			http.StatusTooManyRequests, provider.TypeJSON, "recursive_loop_detected", true, 0,
		},
		"answer":          {finding, synthetic, chat.Chat{}, provider.Prompt{}, http.StatusOK, provider.TypeJSON, `"role":"assistant"`, true, 1},
		"streamed answer": {finding, synthetic, chat.Chat{}, provider.Prompt{Stream: true}, http.StatusOK, provider.TypeEvents, "data: ", false, 1},
		"no such answer":  {finding, synthetic, plain.Plain{}, provider.Prompt{}, http.StatusTooManyRequests, provider.TypeJSON, "recursive_loop_detected", true, 0},
	} {
		wr := NewWriter(time.Now, prometheus.NewRegistry())
		o := outcome.Decide(&outcome.Case{Decision: &checkpb.Decision{Findings: []*checkpb.Finding{c.finding}}, Answerable: true, Reject: c.reject})
		req := &request.Request{Provider: c.format, Prompt: &c.prompt}
		for range 2 { // the second one uses the buffer of the first
			w := httptest.NewRecorder()
			status := wr.Outcome(w, httptest.NewRequest(http.MethodPost, "/", nil), req, &o)
			h := w.Header()
			if status != c.status || w.Code != c.status || h.Get("Content-Type") != c.typ || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%s: %d %s: %s", name, w.Code, h.Get("Content-Type"), w.Body)
			}
			if cached := h.Get("Cache-Control") == ""; cached != c.cached || h.Get("X-Loop-Action") != "reject" {
				t.Errorf("%s: headers %v", name, h)
			}
		}
		if n := testutil.ToFloat64(wr.synthetic.WithLabelValues(c.format.Name())); n != 2*c.answered {
			t.Errorf("%s: %v answers in the model's place are counted", name, n)
		}
	}
}
