package recording

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/gateway/internal/text/excerpt"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/record"
)

func openRecorder(t *testing.T, name string) *Recorder {
	t.Helper()
	r, err := Open(name, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecordedPathsBearNoKeys(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"/v1beta/models/g:generateContent?key=AIza-secret":         "/v1beta/models/g:generateContent",
		"/v1beta/m?alt=sse&KEY=AIza-secret&a=1":                    "/v1beta/m?alt=sse&a=1",
		"/x?api%5Fkey=secret&b":                                    "/x?b",
		"/x/y%2Fz?q=key":                                           "/x/y%2Fz?q=key",
		"/openai/deployments/d?api-version=1&subscription-key=sec": "/openai/deployments/d?api-version=1",
	} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := withoutSecrets(u); got != want {
			t.Errorf("%s is recorded as %s, want %s", in, got, want)
		}
	}
}

func TestHeadersThatBearKeysAreSecret(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Authorization", "x-api-key", "X-Goog-Api-Key", "Cookie", "Proxy-Authorization", "X-Amz-Security-Token", "client-secret"} {
		if !excerpt.SecretHeader(name) {
			t.Errorf("%s is taken for no secret", name)
		}
	}
	for _, name := range append(recordedHeaders, "x-tool-name", "x-team", "X-Token-Estimate") {
		if excerpt.SecretHeader(name) {
			t.Errorf("%s is taken for a secret", name)
		}
	}
}

// requestLine is a request with that body on its way into a file.
func requestLine(body []byte) *line {
	return &line{body: body, hash: identity.NewHasher([identity.KeySize]byte{1}).Pseudonym, request: &record.Record{Version: record.Version, Method: "POST", Path: "/"}}
}

func (r *Recorder) counted(kind, result string) float64 {
	return testutil.ToFloat64(r.lines.WithLabelValues(kind, result))
}

func TestRecordingNeverWaits(t *testing.T) {
	t.Parallel()
	r := openRecorder(t, filepath.Join(t.TempDir(), "r.jsonl"))
	for i := range maxQueued + 7 { // nobody writes yet
		if ok := r.put(requestLine(nil)); ok != (i < maxQueued) {
			t.Fatalf("line %d is taken: %t", i, ok)
		}
	}
	r.put(&line{answer: &record.Answer{}})
	r.put(requestLine(make([]byte, maxQueuedBytes+1)))
	if requests, answers := r.counted("request", "lost"), r.counted("answer", "lost"); requests != 8 || answers != 1 {
		t.Errorf("%v requests and %v answers are lost, want the 7 beyond the queue, the large one, and the answer", requests, answers)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if written := r.counted("request", "written"); written != maxQueued || r.queued.Load() != 0 {
		t.Errorf("%v are written at the end, %d bytes are still counted", written, r.queued.Load())
	}
}

func TestRecordingsAreAppendedAndForTheirOwnerAlone(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "r.jsonl")
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, body := range []string{`{"a":1,"b":[ 2 ]}`, "no JSON\xff"} {
		r := openRecorder(t, name)
		r.put(requestLine([]byte(body)))
		if err := r.Run(done); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("%d lines in %s", len(lines), text)
	}
	var first, second record.Record
	if err := errors.Join(json.Unmarshal(lines[0], &first), json.Unmarshal(lines[1], &second)); err != nil {
		t.Fatal(err)
	}
	if string(first.Body) != `{"a":1,"b":[2]}` || string(second.Bytes) != "no JSON\xff" {
		t.Errorf("recorded %+v and %+v", first, second)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(name, slog.New(slog.DiscardHandler), prometheus.NewRegistry()); !errors.Is(err, errReadable) {
		t.Errorf("a file that others can read: %v", err)
	}
}

func TestAFullDiskLosesRecordingsAndNothingElse(t *testing.T) {
	t.Parallel()
	r := openRecorder(t, filepath.Join(t.TempDir(), "r.jsonl"))
	if err := r.file.Close(); err != nil {
		t.Fatal(err)
	}
	r.write(requestLine(nil))
	if lost := r.counted("request", "lost"); lost != 1 || !r.failed {
		t.Errorf("%v lost", lost)
	}
}

func TestEntryIsRecordedWithWhatAReplayNeeds(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	who := &checkpb.Identity{Tenant: "t", Project: "p", Caller: "c", Session: "s"}
	named := &checkpb.Check{Model: "m2", Watches: []*checkpb.ToolWatch{{History: &checkpb.History{Own: true}}}}
	for name, c := range map[string]struct {
		edit func(*Entry)
		want record.Record
	}{
		"session that follows from the prompt": {func(*Entry) {}, record.Record{
			DerivedSession: "s", Header: map[string]string{"host": "h", "content-type": "application/json", "x-team": "a,b", "content-encoding": "gzip"},
			Model: "m", Body: json.RawMessage(`{"x":1}`),
		}},
		"own session": {func(e *Entry) { e.Subject.OwnSession, e.Action = true, "hint" }, record.Record{
			Session: "s", Action: "hint", Header: map[string]string{"host": "h", "content-type": "application/json", "x-team": "a,b", "content-encoding": "gzip"},
			Model: "m", Body: json.RawMessage(`{"x":1}`),
		}},
		"recognized without being parsed": {func(e *Entry) { e.Request.Prompt, e.Check = nil, named }, record.Record{
			Session: "s", Header: map[string]string{"host": "h", "content-type": "application/json", "x-team": "a,b", "content-encoding": "gzip"},
			Model: "m2", Body: json.RawMessage(`{"x":1}`),
		}},
		"decoded body": {func(e *Entry) { e.Request.Body.Text = []byte(`{"y":2}`) }, record.Record{
			DerivedSession: "s", Header: map[string]string{"host": "h", "content-type": "application/json", "x-team": "a,b"},
			Model: "m", Body: json.RawMessage(`{"y":2}`),
		}},
		"body too large to hold": {func(e *Entry) { e.Request.Body.Rest, e.Request.Body.Length = strings.NewReader(""), -1 }, record.Record{
			DerivedSession: "s", Header: map[string]string{"host": "h", "content-type": "application/json", "x-team": "a,b", "content-encoding": "gzip"},
			Model: "m", Length: 7,
		}},
	} {
		r := openRecorder(t, filepath.Join(t.TempDir(), "r.jsonl"))
		e := Entry{
			Request: request.Request{
				Method: "POST", Host: "h", Body: &request.Body{Bytes: []byte(`{"x":1}`)}, Prompt: &provider.Prompt{Model: "m"},
				Header: http.Header{"Content-Type": {"application/json"}, "X-Team": {"a", "b"}, "X-Api-Key": {"sk"}, "Content-Encoding": {"gzip"}},
				Target: route.Target{Upstream: "openai"},
			},
			Subject: request.Subject{Identity: who, Client: request.Principal{Tenanted: true}},
			URL:     &url.URL{Path: "/v1/conversations/conv_1", RawQuery: "key=sk"}, At: at, Headers: []string{"x-team", "x-api-key"},
			Hash: func(string) string { return "hash" },
		}
		c.edit(&e)
		id := r.Request(e)
		r.Answer(record.Answer{To: id, Time: at, Status: 200, InputTokens: 3})
		first, second := <-r.queue, <-r.queue
		if _, err := first.encode(); err != nil {
			t.Fatal(err)
		}
		c.want.Version, c.want.ID, c.want.Time, c.want.Method, c.want.Upstream = record.Version, id, at.UTC(), "POST", "openai"
		c.want.Path, c.want.TenantVerified = "/v1/conversations/conv_hash", true
		c.want.Tenant, c.want.Project, c.want.Caller = "t", "p", "c"
		if len(first.body) == 0 {
			first.request.Bytes = nil
		}
		if diff := cmp.Diff(c.want, *first.request); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		want := record.Answer{Version: record.Version, To: id, Time: at.UTC(), Status: 200, InputTokens: 3}
		if diff := cmp.Diff(want, *second.answer); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
	}
}

func TestRequestThatDoesNotFitIsLost(t *testing.T) {
	t.Parallel()
	r := openRecorder(t, filepath.Join(t.TempDir(), "r.jsonl"))
	e := Entry{Request: request.Request{Body: &request.Body{Bytes: make([]byte, maxQueuedBytes+1)}}, URL: &url.URL{Path: "/"}}
	if id := r.Request(e); id != "" {
		t.Errorf("recorded as %s", id)
	}
}

func TestNothingIsRecordedWithoutAFile(t *testing.T) {
	t.Parallel()
	r, err := Open("", nil, nil)
	if r != nil || err != nil || r.Run(t.Context()) != nil {
		t.Errorf("opened %v, %v", r, err)
	}
	if _, err := Open(t.TempDir(), slog.New(slog.DiscardHandler), prometheus.NewRegistry()); err == nil {
		t.Error("a folder is taken for a file")
	}
}
