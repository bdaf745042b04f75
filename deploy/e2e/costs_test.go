package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// million is a rule with a limit of a million tokens.
const million = `
rules:
  - {name: tpm, limit_keys: [caller], algorithm: token_bucket_llm, algorithm_config: {tokens_per_minute: 1000000}}
`

// taken is how many tokens were taken of a million, as a peek tells them.
func taken(t *testing.T, url string) int {
	t.Helper()
	body := `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"how many are left?"}]}`
	a := send(t, url, check(`{"path":"/v1/chat/completions","peek":true,"body":`+body+`}`))
	left, err := strconv.Atoi(a.header.Get("RateLimit-Remaining"))
	if err != nil {
		t.Fatalf("peek: status %d, remaining %q: %s", a.status, a.header.Get("RateLimit-Remaining"), a.body)
	}
	return 1_000_000 - left - promptTokens(body) - 1
}

// promptTokens estimates the tokens of a body that ends with its messages.
func promptTokens(body string) int {
	_, messages, _ := strings.Cut(body, `"messages":`)
	return (len(messages) - len("}")) / 4
}

// untilTaken waits for the corrections that follow answers.
func untilTaken(t *testing.T, url string, want int) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	got := taken(t, url)
	for got != want && time.Now().Before(deadline) {
		got = taken(t, url)
	}
	if got != want {
		t.Errorf("%d tokens are taken, want %d", got, want)
	}
}

// metered starts a gateway with a rule over a million tokens and a clock that
// stands still.
func metered(t *testing.T, upstream string, edits ...func(*system.Config)) string {
	t.Helper()
	var c clock
	return start(t, upstream, append(edits, c.set, policies(t, rules(million)))...).URL()
}

// completing answers each request with a finished response and its usage.
func completing(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"id":"resp_1","object":"response","status":"completed","output":[],"usage":{"input_tokens":400,"output_tokens":100}}`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestOnlyPromptsCostTokens(t *testing.T) {
	t.Parallel()
	url := metered(t, completing(t))
	body := `{"model":"m","messages":[{"role":"user","content":"how long is this?"}]}`
	for _, c := range []call{
		{http.MethodGet, "/v1/models", "", nil},
		{http.MethodGet, "/v1/responses/resp_1", "", nil},
		{http.MethodPost, "/v1/responses/resp_1/cancel", "", nil},
		{http.MethodPost, "/v1/responses/input_tokens", body, nil},
		{http.MethodPost, "/v1/messages/count_tokens", body, nil},
		{http.MethodPost, "/v1beta/models/m:countTokens", body, nil},
		{http.MethodPost, "/v1/files", strings.Repeat("a file of five megabytes ", 200_000), nil},
		{http.MethodPost, "/v1/embeddings", `{"model":"e","input":"how long is this?"}`, nil},
	} {
		c.header = chat("").header.Clone()
		if a := send(t, url, c); a.status != http.StatusOK {
			t.Errorf("%s %s: %d", c.method, c.path, a.status)
		}
	}
	untilTaken(t, url, 0)
	for i, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/responses"} {
		c := chat(strings.Replace(body, `"messages"`, `"input"`, i))
		c.path = path
		send(t, url, c)
		untilTaken(t, url, 500*(i+1))
	}
}

func TestReservationCoversAllAnswersAndTheMediaOfAPrompt(t *testing.T) {
	t.Parallel()
	url := metered(t, forgetful(t))
	before := 0
	for name, c := range map[string]struct {
		body        string
		least, most int
	}{
		"one answer":        {`{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"a"}]}`, 100, 125},
		"eight answers":     {`{"model":"m","n":8,"max_tokens":100,"messages":[{"role":"user","content":"b"}]}`, 800, 825},
		"of default length": {`{"model":"m","n":3,"messages":[{"role":"user","content":"c"}]}`, 3000, 3025},
		"an image": {fmt.Sprintf(`{"model":"m","max_tokens":100,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}]}]}`,
			base64.StdEncoding.EncodeToString(append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 750_000)...))), 1700, 1750},
	} {
		if a := send(t, url, chat(c.body)); a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", name, a.status, a.body)
		}
		after := taken(t, url)
		if got := after - before; got < c.least || got > c.most {
			t.Errorf("%s takes %d tokens, want %d to %d", name, got, c.least, c.most)
		}
		before = after
	}
}

// forgetful answers without usage.
func forgetful(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"choices":[]}`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestUsageCountsThatCameBeforeTheClientLeft(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	url := metered(t, server.URL)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	c := chat(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`)
	r, err := http.NewRequestWithContext(ctx, c.method, url+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = c.header
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.ReadFull(res.Body, make([]byte, 20)); err != nil {
		t.Fatal(err)
	}
	if got := taken(t, url); got < 1000 {
		t.Errorf("%d are reserved while the answer comes", got)
	}
	leave()
	untilTaken(t, url, 10)
}

func TestBrokenUploadGivesBackWhatItReserved(t *testing.T) {
	t.Parallel()
	url := metered(t, completing(t), func(cfg *system.Config) { cfg.Gateway.MaxInspectBytes = 128 << 10 })
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\nContent-Length: 500000\r\n\r\n%s",
		chat("").header.Get("Authorization"), strings.Repeat("x", 200<<10))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); taken(t, url) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nothing was reserved")
		}
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	untilTaken(t, url, 0)
}

func TestCheckAndItsRequestTakeOnce(t *testing.T) {
	t.Parallel()
	url := metered(t, completing(t))
	c := chat(`{"model":"m","max_tokens":5000,"messages":[{"role":"user","content":"checked"}]}`)
	d := decide(t, url, about(c, ""))
	if got := taken(t, url); got < 5000 {
		t.Errorf("the check takes %d", got)
	}
	send(t, url, c.with("X-Unloop-Check", d.RequestID))
	untilTaken(t, url, 500) // what its answer cost
	send(t, url, c.with("X-Unloop-Check", d.RequestID))
	untilTaken(t, url, 1000) // one check covers one request
}

func TestRejectedCheckGivesBackWhatItTook(t *testing.T) {
	t.Parallel()
	var c clock
	url := start(t, echo(t), c.set, policies(t, rules(million+`
  - {name: few, limit_keys: ["header:x-org"], algorithm: token_bucket, algorithm_config: {rps: 0.001, burst: 1}}
`))).URL()
	large := chat(`{"model":"m","max_tokens":9000,"messages":[{"role":"user","content":"large"}]}`).with("X-Org", "acme")
	first := decide(t, url, about(large, ""))
	before := taken(t, url)
	for range 4 {
		if d := decide(t, url, about(large, "")); first.Action != "allow" || d.Action != "reject" {
			t.Fatalf("%+v, then %+v", first, d)
		}
	}
	untilTaken(t, url, before)
}

func TestAnswersWithoutAContentTypeGetNone(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		if r.URL.Path == "/v1/typed" {
			w.Header().Set("Content-Type", "text/x-own")
		}
		_, _ = io.WriteString(w, "some text")
	}))
	t.Cleanup(server.Close)
	url := start(t, server.URL).URL()
	for path, want := range map[string]string{"/v1/untyped": "", "/v1/typed": "text/x-own"} {
		if a := send(t, url, call{http.MethodGet, path, "", nil}); a.header.Get("Content-Type") != want || string(a.body) != "some text" {
			t.Errorf("%s: %q, want %q", path, a.header.Get("Content-Type"), want)
		}
	}
}

func TestDigestsOfAChangedBodyAreDropped(t *testing.T) {
	t.Parallel()
	upstream := serve(t, greeting)
	url := start(t, upstream.url, policies(t, `
bundle_version: 1
policies: [{id: hints, spec: {prompt: {max_hits: 1, action: hint}}}]
`)).URL()
	digests := []string{"Content-Md5", "Content-Digest", "Repr-Digest", "Digest"}
	c := prompt("again")
	for _, name := range digests {
		c = c.with(name, "of the client's bytes")
	}
	statuses(t, url, c, 2)
	all := upstream.Requests()
	if len(all) != 2 || bytes.Equal(all[1].Body, all[0].Body) {
		t.Fatalf("%d requests, and no hint", len(all))
	}
	for _, name := range digests {
		if all[0].Header.Get(name) == "" || all[1].Header.Get(name) != "" {
			t.Errorf("%s: %q with the client's body, %q with a changed one", name, all[0].Header.Get(name), all[1].Header.Get(name))
		}
	}
}
