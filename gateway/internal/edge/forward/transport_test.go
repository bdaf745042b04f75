package forward

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// memory is a body in memory that must not be read in pieces.
type memory struct {
	*bytes.Reader
	t *testing.T
}

func (m memory) Read([]byte) (int, error) {
	m.t.Error("the body is copied")
	return 0, io.ErrUnexpectedEOF
}

func TestABodyInMemoryIsSentAsItLiesThere(t *testing.T) {
	t.Parallel()
	transport, err := NewTransport("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			_, _ = w.Write(body)
		}
	}))
	t.Cleanup(upstream.Close)
	text := strings.Repeat("0123456789", 100_000)
	for _, c := range []struct {
		length int
		err    string
	}{{len(text), ""}, {len(text) - 1, "short write"}, {len(text) + 1, "ContentLength"}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, upstream.URL, io.NopCloser(memory{bytes.NewReader([]byte(text)), t}))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = int64(c.length)
		res, err := transport.RoundTrip(r)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%d bytes for %d: %v", c.length, len(text), err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || string(got) != text {
			t.Errorf("%d bytes came back, %v", len(got), err)
		}
	}
}
