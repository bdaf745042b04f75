package meter

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// start is a meter in front of a gateway that a handler plays.
func start(t *testing.T, gateway http.HandlerFunc) *Meter {
	t.Helper()
	server := httptest.NewServer(gateway)
	t.Cleanup(server.Close)
	m, err := Start(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func send(t *testing.T, r *http.Request) (http.Header, string) {
	t.Helper()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.Header, string(body)
}

func request(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMeterCountsWhatBecameOfRequests(t *testing.T) {
	t.Parallel()
	m := start(t, func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		for name, values := range r.URL.Query() {
			w.Header().Set(name, values[0])
		}
		switch {
		case r.URL.Path == "/gone":
			panic(http.ErrAbortHandler)
		case r.URL.Path != "/200":
			status = map[string]int{"/401": 401, "/429": 429, "/403": 403, "/503": 503}[r.URL.Path]
		}
		w.WriteHeader(status)
	})
	for _, path := range []string{
		"/200", "/200?X-Loop-Action=hint", "/200?X-Loop-Degraded=timeout", "/401", "/401", "/503",
		"/429?X-Loop-Action=reject", "/200?X-Loop-Action=reject&X-Loop-Answer=synthetic", "/429?X-Loop-Action=break",
		"/403?X-Loop-Reason=kill_switch", "/429?X-Loop-Rule-Action=reject", "/503?X-Loop-Degraded=timeout", "/gone",
	} {
		send(t, request(t, m.URL()+path))
	}
	want := Counts{
		Requests: 13, Unanswered: 1, Failed: map[int]int{401: 2, 503: 1},
		Stopped: map[string]int{ByLoop: 3, ByOperator: 1, ByRule: 1, Unchecked: 1},
	}
	if diff := cmp.Diff(want, m.Counts()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMeterForwardsAsItCame(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body string
	m := start(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got, body = r.Clone(context.WithoutCancel(r.Context())), string(text)
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, "answer")
	})
	r := request(t, m.URL()+"/v1/chat/completions?a=1;b&c=%zz")
	r.Header.Set("X-Forwarded-For", "10.0.0.1")
	header, answer := send(t, r)
	if answer != "answer" || header.Get("Content-Encoding") != "" || body != "hello" {
		t.Errorf("answered %q with %v to %q", answer, header, body)
	}
	if got.URL.RawQuery != "a=1;b&c=%zz" || got.Header.Get("X-Forwarded-For") != "10.0.0.1" || got.Header.Get("Accept-Encoding") != "gzip" {
		t.Errorf("forwarded %s with %v", got.URL, got.Header)
	}
	if got.Host != m.gateway.Host {
		t.Errorf("the gateway is addressed as %s", got.Host)
	}
	r = request(t, m.URL())
	r.Host = "rebound.example"
	if send(t, r); got.Host != "rebound.example" {
		t.Errorf("a page's Host became %s", got.Host)
	}
}

func TestMeterPassesStreamsChunkByChunk(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	m := start(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, "data\n")
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	})
	res, err := http.DefaultClient.Do(request(t, m.URL()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewReader(res.Body)
	for range 3 {
		if line, err := lines.ReadString('\n'); err != nil || line != "data\n" {
			t.Fatalf("%q, %v", line, err)
		}
		next <- struct{}{}
	}
}

func TestMeterNeedsAnAddress(t *testing.T) {
	t.Parallel()
	if _, err := Start(t.Context(), "http://%zz"); err == nil {
		t.Error("a meter in front of nothing")
	}
}
