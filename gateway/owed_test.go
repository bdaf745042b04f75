package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// A request fails that bore a hint, and a gateway starts afterwards. The replay of the
// request there bears the hint again.
func TestAGatewayThatStartsLearnsWhichHintsAreOwed(t *testing.T) {
	t.Parallel()
	var failed atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !failed.Swap(true) {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	s := natstest.Start(t)
	deciding(t, s, func(*checkpb.Check) *checkpb.Decision {
		if failed.Load() { // detectors give a hint once
			return &checkpb.Decision{}
		}
		return &checkpb.Decision{Action: checkpb.Action_ACTION_HINT, Findings: []*checkpb.Finding{{
			Policy: "default", Detector: "tool", Action: checkpb.Action_ACTION_HINT, HitCount: 3, Message: "the same again",
		}}}
	})
	first := following(t, s, at(server.URL))
	run(t, first)
	if a, _ := post(t, first, "/v1/chat/completions", nil); a.StatusCode != http.StatusInternalServerError || a.Header.Get("X-Loop-Action") != "hint" {
		t.Fatalf("the request that fails: %+v", a)
	}
	late := following(t, s, at(server.URL))
	run(t, late)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for tick := time.NewTicker(5 * time.Millisecond); !late.owed.Any(); <-tick.C {
		must(t, ctx.Err())
	}
	for _, want := range []string{"hint", ""} { // once
		if a, _ := post(t, late, "/v1/chat/completions", nil); a.StatusCode != http.StatusOK || a.Header.Get("X-Loop-Action") != want {
			t.Errorf("the replay: %+v, want the action %q", a, want)
		}
	}
}

// A body that no hint can be put into goes out as it is: the answer says that there was
// something to warn of, not that the model was told, and no hint is owed.
func TestAHintWithoutAPlaceIsAWarning(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError) // after which a hint is given again
	}))
	t.Cleanup(server.Close)
	s := natstest.Start(t)
	deciding(t, s, func(*checkpb.Check) *checkpb.Decision {
		return &checkpb.Decision{Action: checkpb.Action_ACTION_HINT, Findings: []*checkpb.Finding{{
			Policy: "default", Detector: "tool", Action: checkpb.Action_ACTION_HINT, HitCount: 3, Message: "the same again",
		}}}
	})
	g := following(t, s, at(server.URL))
	run(t, g)
	var body bytes.Buffer
	zw := gzip.NewWriter(&body)
	_, err := io.WriteString(zw, `{"model":"m","messages":[{"role":"user","content":"hello there"}]}`)
	must(t, err)
	must(t, zw.Close())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.Addr()+"/v1/chat/completions", &body)
	must(t, err)
	req.Header.Set("Content-Encoding", "gzip")
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	must(t, res.Body.Close())
	if got := res.Header.Get("X-Loop-Action"); res.StatusCode != http.StatusInternalServerError || got != "warn" || g.owed.Any() {
		t.Errorf("status %d, action %q, owed %v", res.StatusCode, got, g.owed.Any())
	}
}
