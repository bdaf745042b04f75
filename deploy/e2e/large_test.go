package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// Bodies over the inspection limit that differ only behind what is held are
// different requests; those that are the same to their ends are a loop.
func TestLargeBodiesAreToldApartByAllOfThem(t *testing.T) {
	t.Parallel()
	upstream := serve(t, greeting)
	url := start(t, upstream.url, policies(t, `
bundle_version: 1
policies: [{id: p, spec: {loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 4, action: reject, similarity: exact}}}]
`), func(cfg *system.Config) { cfg.Gateway.MaxInspectBytes = 100_000 }).URL()
	large := func(end string) call {
		return chat(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("a", 200_000) + end + `"}]}`)
	}
	for i := range 9 {
		if a := send(t, url, large(string(rune('a'+i)))); a.status != http.StatusOK {
			t.Errorf("request %d of nine different ones: status %d", i+1, a.status)
		}
	}
	stopped := 0
	for range 9 {
		if send(t, url, large("same")).status == http.StatusTooManyRequests {
			stopped++
		}
	}
	if stopped < 4 {
		t.Errorf("%d of nine same requests were stopped", stopped)
	}
}
