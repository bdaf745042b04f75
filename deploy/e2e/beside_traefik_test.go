//go:build sdks

package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/kit/natstest"
)

// Traefik's own router, ForwardAuth and proxy, with the example's configuration: requests pass with
// what Unloop says of them, the sixth equal prompt gets the reason, and none passes while Unloop
// is away.
func TestTraefikAsksBeforeItForwards(t *testing.T) {
	t.Parallel()
	program := need(t, "UNLOOP_TEST_TRAEFIK")
	models := make(chan answered, 1)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		models <- answered{header: r.Header, body: body}
		_, _ = io.WriteString(w, "from the model at "+r.Host)
	}))
	t.Cleanup(model.Close)
	s, stop := startStoppable(t, echo(t), policies(t, `
bundle_version: 1
policies:
  - {id: early, spec: {selector: {pathPrefix: /v1}, loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 3, action: warn}}}
  - {id: late, spec: {selector: {pathPrefix: /v1}, loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 6, action: reject}}}
`))
	url := startTraefik(t, program, s.URL(), model.URL)

	request := prompt("Hello.").with("X-Loop-Action", "forged")
	for n, action := range []string{"", "", "warn", "warn", "warn"} {
		got := send(t, url, request)
		if want := "from the model at " + strings.TrimPrefix(model.URL, "http://"); got.status != http.StatusOK || string(got.body) != want {
			t.Fatalf("request %d: %d %s, want %s", n, got.status, got.body, want)
		}
		if came := <-models; string(came.body) != request.body || came.header.Get("X-Loop-Action") != action {
			t.Errorf("request %d reached the model with %v %s, want the action %q", n, came.header, came.body, action)
		}
	}
	if got := send(t, url, request); got.status != http.StatusTooManyRequests || !strings.Contains(string(got.body), `"code":"recursive_loop_detected"`) ||
		got.header.Get("X-Loop-Action") != "reject" || got.header.Get("X-Should-Retry") != "false" {
		t.Errorf("the sixth: %d %v %s", got.status, got.header, got.body)
	}
	if got := send(t, url, call{method: http.MethodPost, path: "/v1/chat/completions", body: strings.Repeat("x", 8<<20+1)}); got.status != http.StatusUnauthorized {
		t.Errorf("a body over maxBodySize: %d %.100s", got.status, got.body)
	}
	stop()
	if got := send(t, url, prompt("Another one.")); got.status != http.StatusInternalServerError {
		t.Errorf("while Unloop is away: %d %s", got.status, got.body)
	}
	if len(models) > 0 {
		t.Errorf("the model got %s", (<-models).body)
	}
}

// startTraefik runs the example in front of a model, and returns its URL.
func startTraefik(t *testing.T, program, unloop, model string) string {
	t.Helper()
	text, err := os.ReadFile("../beside/traefik/dynamic.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config, listen := filepath.Join(t.TempDir(), "dynamic.yaml"), natstest.FreeAddr(t)
	if err := os.WriteFile(config, []byte(strings.NewReplacer("http://127.0.0.1:8080", unloop, "https://api.openai.com", model).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	runBeside(t, listen, program, config, listen)
	return "http://" + listen
}
