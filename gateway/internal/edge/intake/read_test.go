package intake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
)

func TestUploadWithoutABodyIsNoneAtAll(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	bodies := NewBodies(1<<20, prometheus.NewRegistry())
	if u := bodies.Watch(httptest.NewRecorder(), r, 1); u != nil || r.Body != http.NoBody || Broken(r) {
		t.Errorf("watched %v", u)
	}
	var u *Upload
	u.Free()
	Hurry(r)
	if b, err := Read(r, 10); err != nil || b.Bytes != nil {
		t.Errorf("read %+v, %v", b, err)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sent   int
		length int64 // as announced
		limit  int64
		held   int
		rest   bool
	}{
		"announced":                   {100, 100, 100, 100, false},
		"announced, too long":         {101, 101, 100, 101, false},
		"announced, too long to hold": {request.Sample + 2, request.Sample + 2, 100, request.Sample + 1, true},
		"announced, longer than what is believed at once": {firstAnnounced + 1, firstAnnounced + 1, 8 << 20, firstAnnounced + 1, false},
		"long, of unknown length":                         {100_000, -1, 8 << 20, 100_000, false},
		"of unknown length":                               {100, -1, 100, 100, false},
		"of unknown length, too long":                     {200, -1, 100, 101, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := bytes.Repeat([]byte("x"), c.sent)
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(sent))
			r.ContentLength = c.length
			b, err := Read(r, c.limit)
			if err != nil || len(b.Bytes) != c.held || (b.Rest != nil) != c.rest || b.Length != c.length {
				t.Fatalf("held %d, rest %v, %v", len(b.Bytes), b.Rest != nil, err)
			}
			if all, err := io.ReadAll(b.Reader()); err != nil || !bytes.Equal(all, sent) {
				t.Errorf("%d bytes reach the upstream, %v", len(all), err)
			}
		})
	}
}

func TestABodyThatEndsEarlyIsBroken(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int64{"announced": 10, "of unknown length": -1} {
		bodies := NewBodies(1<<20, prometheus.NewRegistry())
		r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(io.ErrUnexpectedEOF)))
		r.ContentLength = length
		bodies.Watch(httptest.NewRecorder(), r, 1)
		if _, err := Read(r, 100); !errors.Is(err, io.ErrUnexpectedEOF) || !Broken(r) {
			t.Errorf("%s: %v, broken %v", name, err, Broken(r))
		}
		Hurry(r) // its deadline stands already
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{fmt.Errorf("read: %w", ErrNoRoom), 503, "too_many_bodies"},
		{fmt.Errorf("read: %w", os.ErrDeadlineExceeded), 408, "incomplete_body"},
		{io.ErrUnexpectedEOF, 400, "incomplete_body"},
	} {
		if r := Refusal(c.err); r.Status != c.status || r.Code != c.code || r.Message == "" {
			t.Errorf("%v: %+v", c.err, r)
		}
	}
}

func TestDeadlinesOfAnAnsweredRequestStand(t *testing.T) {
	t.Parallel()
	bodies := NewBodies(1<<20, prometheus.NewRegistry())
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("ab"))
	defer bodies.Watch(httptest.NewRecorder(), r, 1).Free()
	Hurry(r)
	Hurry(r)
	if text, err := io.ReadAll(r.Body); err != nil || string(text) != "ab" || Broken(r) {
		t.Errorf("read %q, %v", text, err)
	}
}

func TestMemoryForBodiesIsBoundedByDefault(t *testing.T) {
	t.Parallel()
	all := NewBodies(0, prometheus.NewRegistry())
	if all.size <= 0 || all.size > mostMemory {
		t.Errorf("%d bytes for bodies by default", all.size)
	}
}

const hello = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`

func zipped(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return out.String()
}

func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format           *provider.Format
		method, encoding string
		body             string
		rest             bool
		model, why       string
	}{
		"a prompt":                    {format: chat.Format, body: hello, model: "m"},
		"a compressed prompt":         {format: chat.Format, body: zipped(hello), encoding: "gzip", model: "m"},
		"a prompt of another dialect": {format: chat.Format, body: "\uFEFF" + hello, model: "m"},
		"of no prompt's path":         {format: plain.Format, body: hello},
		"too large of no prompt's":    {format: plain.Format, body: hello, rest: true},
		"of another method":           {format: chat.Format, method: http.MethodGet, body: hello},
		"too large":                   {format: chat.Format, body: hello, rest: true, why: request.UninspectedTooLarge},
		"too large by GET":            {format: chat.Format, method: http.MethodGet, rest: true, why: request.UninspectedTooLarge},
		"too large uncompressed":      {format: chat.Format, body: zipped(strings.Repeat(" ", 2000)), encoding: "gzip", why: request.UninspectedTooLarge},
		"of an unknown encoding":      {format: chat.Format, body: hello, encoding: "morse", why: request.UninspectedEncoding},
		"not of its encoding":         {format: chat.Format, body: hello, encoding: "gzip", why: request.UninspectedInvalid},
		"no JSON":                     {format: chat.Format, body: "{", why: request.UninspectedInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
			if c.method != "" {
				r.Method = c.method
			}
			if c.encoding != "" {
				r.Header.Set("Content-Encoding", c.encoding)
			}
			req := request.New(r, route.Target{Format: c.format})
			req.Body = &request.Body{Bytes: []byte(c.body)}
			if c.rest {
				req.Body.Rest = strings.NewReader("more")
			}
			given := req.Body
			taken := 0
			got, err := Parse(req, 1000, provider.Options{Tail: 3}, func(n int) error {
				taken += n
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if req.Prompt != nil || req.Uninspected != "" || req.Body != given || req.Body.Text != nil {
				t.Errorf("the given request was changed: %+v", req)
			}
			req = got
			if req.Model() != c.model || req.Uninspected != c.why || (req.Prompt != nil) != (c.model != "") {
				t.Errorf("model %q, uninspected %q; want %q, %q", req.Model(), req.Uninspected, c.model, c.why)
			}
			if c.model != "" && len(req.Body.Text) < len(`{"model":"m"}`) {
				t.Errorf("text %q", req.Body.Text)
			}
			if copied := req.Body.Recoded(); copied && taken != len(req.Body.Text) || !copied && taken != 0 {
				t.Errorf("memory for %d bytes was taken, for %d of text", taken, len(req.Body.Text))
			}
		})
	}
}

func TestALargeBodyIsTheSameAsLongAsThoseBeforeItWere(t *testing.T) {
	t.Parallel()
	p := NewBodies(0, prometheus.NewRegistry())
	send := func(client, begin, rest string) (digest any) {
		b := &request.Body{Bytes: []byte(begin), Rest: strings.NewReader(rest), Length: int64(len(begin + rest))}
		p.Follow(b, client)
		if _, err := io.Copy(io.Discard, b.Reader()); err != nil {
			t.Fatal(err)
		}
		return b.Digest()
	}
	first := send("c", "begin", "end")
	second, third := send("c", "begin", "end"), send("c", "begin", "end")
	if first == second || second != third {
		t.Error("the same bodies, once known, do not count as the same")
	}
	if other := send("c", "begin", "END"); other != third {
		t.Error("a body is known to differ before it has passed")
	}
	if after := send("c", "begin", "end"); after == third {
		t.Error("a body counts as the one before last")
	}
	if other := send("d", "begin", "end"); other != first {
		t.Error("another client's body is known")
	}
}
