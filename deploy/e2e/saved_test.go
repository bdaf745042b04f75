package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/event"
)

// What a loop saved is what the provider said that the requests before it cost, not a guess by
// their size.
func TestWhatIsSavedFollowsTheProvidersUsage(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"1","object":"chat.completion","model":"gpt-4o","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Hello."}}],`+
			`"usage":{"prompt_tokens":100000,"completion_tokens":10000,"total_tokens":110000,"prompt_tokens_details":{"cached_tokens":40000}}}`)
	}))
	t.Cleanup(upstream.Close)
	s := start(t, upstream.URL, inProcess)
	again := prompt("Try again.")
	again.body = `{"model":"gpt-4o","messages":[{"role":"user","content":"Try again."}]}`
	statuses(t, s.URL(), again, 7)
	var saved event.Saved
	for deadline := time.Now().Add(time.Minute); saved.Requests < 2 && time.Now().Before(deadline); {
		var answer struct{ Loops []struct{ Saved event.Saved } }
		res, err := http.Get(s.AdminURL() + "/api/v1/loops?state=open")
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(res.Body).Decode(&answer)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if len(answer.Loops) > 0 {
			saved = answer.Loops[0].Saved
		}
	}
	if saved.Requests != 2 || saved.InputTokens != 200_000 || saved.USD == nil || fmt.Sprintf("%.2f", *saved.USD) != "0.60" { // 60,000 input, 40,000 cached and 10,000 output tokens each
		t.Errorf("saved %+v", saved)
	}
}
