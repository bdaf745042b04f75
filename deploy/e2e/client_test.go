package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// clock is a clock that a test moves.
type clock struct{ offset atomic.Int64 }

var started = time.Now()

func (c *clock) now() time.Time          { return started.Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }
func (c *clock) set(cfg *system.Config)  { cfg.Clock = c.now }

// call is one HTTP request of a bare client.
type call struct {
	method, path, body string
	header             http.Header
}

// prompt is a call with one user message.
func prompt(text string) call {
	return chat(fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, text))
}

// chat is a call with a whole Chat Completions body.
func chat(body string) call {
	return call{http.MethodPost, "/v1/chat/completions", body, http.Header{"Authorization": {"Bearer sk-one"}, "Content-Type": {"application/json"}}}
}

// with returns the call with another header.
func (c call) with(name, value string) call {
	c.header = c.header.Clone()
	if c.header == nil {
		c.header = http.Header{}
	}
	c.header.Set(name, value)
	return c
}

// answered is an answer, read whole.
type answered struct {
	status int
	header http.Header
	body   []byte
}

// refusal is the part of a refusal that clients look at.
type refusal struct {
	Error struct {
		Message, Type, Code string
		Detail              detail
	}
	Detail detail
}

type detail struct {
	Error, Message, Detector, Policy, Fingerprint string
	HitCount                                      int    `json:"hit_count"`
	WindowSeconds                                 int    `json:"window_seconds"`
	CooldownSeconds                               int    `json:"cooldown_seconds"`
	LoopID                                        string `json:"loop_id"`
}

func (a answered) refusal(t testing.TB) refusal {
	t.Helper()
	var r refusal
	if err := json.Unmarshal(a.body, &r); err != nil {
		t.Fatalf("read %q: %v", a.body, err)
	}
	return r
}

// send sends a call to a gateway and reads the answer.
func send(t testing.TB, url string, c call) answered {
	t.Helper()
	a, err := trySend(url, c)
	if err != nil {
		t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	return a
}

func trySend(url string, c call) (answered, error) {
	req, err := http.NewRequest(c.method, url+c.path, bytes.NewReader([]byte(c.body)))
	if err != nil {
		return answered{}, err
	}
	if c.header != nil {
		req.Header = c.header
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answered{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return answered{res.StatusCode, res.Header, body}, err
}

// statuses sends a call n times, one after the other.
func statuses(t testing.TB, url string, c call, n int) []int {
	t.Helper()
	all := make([]int, n)
	for i := range all {
		all[i] = send(t, url, c).status
	}
	return all
}

// ok is n times the status 200, and then the rest.
func ok(n int, rest ...int) []int {
	all := make([]int, n, n+len(rest))
	for i := range all {
		all[i] = http.StatusOK
	}
	return append(all, rest...)
}

// echo is an upstream that answers every request with 200.
func echo(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// policies writes a bundle for the gateway to load.
func policies(t *testing.T, bundle string) func(*system.Config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(bundle), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(cfg *system.Config) { cfg.Gateway.Policies = file }
}
