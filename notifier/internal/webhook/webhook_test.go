package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/unloop/unloop/schemas/event"
)

var (
	loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	anEvent  = event.New(event.Detected, "evt-1", time.Unix(1_700_000_000, 0))
	aBody    = []byte("{\"type\":\"loop.detected\",  \"id\":\"evt-1\"}\n")
	aKey     = bytes.Repeat([]byte("k"), 32)
)

func newWebhook(t *testing.T, target string, key []byte, allowed []netip.Prefix) *Webhook {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Config{URL: u, Key: key, Allowed: allowed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// serve returns a server that is closed after the webhooks that use it.
func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

type received struct {
	header http.Header
	method string
	body   []byte
}

// recorder returns a server that keeps what it receives.
func recorder(t *testing.T) (*httptest.Server, <-chan received) {
	t.Helper()
	got := make(chan received, 16)
	return serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- received{r.Header, r.Method, body}
	}), got
}

func TestSendPostsTheBodyUnchangedAndSigned(t *testing.T) {
	t.Parallel()
	server, got := recorder(t)
	if err := newWebhook(t, server.URL, aKey, loopback).Send(t.Context(), anEvent, aBody); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if r.method != http.MethodPost || !bytes.Equal(r.body, aBody) {
		t.Errorf("got %s %q, want POST %q", r.method, r.body, aBody)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "unloop-notifier", "Webhook-Id": "evt-1",
	} {
		if r.header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, r.header.Get(name), want)
		}
	}
	verifier, err := standardwebhooks.NewWebhookRaw(aKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify(r.body, r.header); err != nil {
		t.Errorf("verify: %v", err)
	}
	if err := verifier.Verify(append(r.body, ' '), r.header); err == nil {
		t.Error("a changed body is verified as well")
	}
}

func TestSendWithoutAKeyIsUnsigned(t *testing.T) {
	t.Parallel()
	server, got := recorder(t)
	if err := newWebhook(t, server.URL, nil, loopback).Send(t.Context(), anEvent, aBody); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if _, ok := r.header["Webhook-Signature"]; ok {
		t.Error("a signature without a key")
	}
	if r.header.Get("Webhook-Id") == "" || r.header.Get("Webhook-Timestamp") == "" {
		t.Error("id or timestamp is missing")
	}
}

func TestSendUsesCredentialsOfTheURL(t *testing.T) {
	t.Parallel()
	server, got := recorder(t)
	target := strings.Replace(server.URL, "http://", "http://user:pass@", 1)
	if err := newWebhook(t, target, nil, loopback).Send(t.Context(), anEvent, aBody); err != nil {
		t.Fatal(err)
	}
	if r := <-got; r.header.Get("Authorization") != "Basic dXNlcjpwYXNz" {
		t.Errorf("Authorization is %q", r.header.Get("Authorization"))
	}
}

func TestSendJudgesStatuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status        int
		ok, permanent bool
	}{
		{200, true, false},
		{202, true, false},
		{204, true, false},
		{302, false, false},
		{304, false, false},
		{400, false, true},
		{401, false, true},
		{404, false, true},
		{408, false, false},
		{410, false, true},
		{425, false, false},
		{429, false, false},
		{499, false, true},
		{500, false, false},
		{503, false, false},
		{599, false, false},
	}
	for _, tt := range tests {
		t.Run(http.StatusText(tt.status), func(t *testing.T) {
			t.Parallel()
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(tt.status)
			})
			err := newWebhook(t, server.URL, nil, loopback).Send(t.Context(), anEvent, aBody)
			if tt.ok {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var status *StatusError
			if !errors.As(err, &status) {
				t.Fatalf("got %v, want a status", err)
			}
			if status.Code != tt.status || status.Permanent() != tt.permanent || status.RetryAfter() != 7*time.Second {
				t.Errorf("got %+v, permanent %v", status, status.Permanent())
			}
		})
	}
}

func TestSendFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere, got := recorder(t)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	err := newWebhook(t, server.URL, nil, loopback).Send(t.Context(), anEvent, aBody)
	var status *StatusError
	if !errors.As(err, &status) || status.Code != http.StatusTemporaryRedirect {
		t.Errorf("got %v, want the redirect's status", err)
	}
	if len(got) != 0 {
		t.Error("the redirect was followed")
	}
}

func TestSendRefusesPrivateTargetsThatAreNotAllowed(t *testing.T) {
	t.Parallel()
	server, got := recorder(t)
	byName := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	for _, target := range []string{server.URL, byName} {
		err := newWebhook(t, target, nil, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}).Send(t.Context(), anEvent, aBody)
		if !errors.Is(err, ErrPrivateTarget) || !strings.Contains(err.Error(), "--allow-cidr") {
			t.Errorf("%s: got %v, want ErrPrivateTarget", target, err)
		}
	}
	if len(got) != 0 {
		t.Error("a request reached the private target")
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, addr, allowed string
		ok                  bool
	}{
		{"public IPv4", "93.184.215.14", "", true},
		{"public IPv6", "2606:2800:21f:cb07::1", "", true},
		{"cloud metadata", "169.254.169.254", "", false},
		{"private IPv4", "10.1.2.3", "", false},
		{"private IPv4, allowed", "10.1.2.3", "10.0.0.0/8", true},
		{"private IPv4, other network allowed", "10.1.2.3", "192.168.0.0/16", false},
		{"IPv6 loopback", "::1", "", false},
		{"IPv6 loopback, allowed", "::1", "::1/128", true},
		{"private IPv6", "fd00::1", "", false},
		{"IPv4 loopback in IPv6", "::ffff:127.0.0.1", "", false},
		{"unspecified", "0.0.0.0", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var allowed []netip.Prefix
			if tt.allowed != "" {
				allowed = append(allowed, netip.MustParsePrefix(tt.allowed))
			}
			if err := Guard(allowed).SafeAddr(netip.MustParseAddr(tt.addr)); (err == nil) != tt.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSendVerifiesCertificates(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Config.ErrorLog = nil
	t.Cleanup(server.Close)
	err := newWebhook(t, server.URL, nil, loopback).Send(t.Context(), anEvent, aBody)
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v, want a refused certificate", err)
	}
}

func TestSendReadsNoEndlessAnswer(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := bytes.Repeat([]byte("x"), 4096)
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	if err := newWebhook(t, server.URL, nil, loopback).Send(t.Context(), anEvent, aBody); err != nil {
		t.Error(err)
	}
}

func TestSendEndsWithItsContext(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if err := newWebhook(t, server.URL, nil, loopback).Send(ctx, anEvent, aBody); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestSendRefusesIDsThatNoHeaderCanCarry(t *testing.T) {
	t.Parallel()
	server, got := recorder(t)
	for _, id := range []string{"a\nb", "a b", "ü", "\x7f"} {
		e := anEvent
		e.ID = id
		err := newWebhook(t, server.URL, aKey, loopback).Send(t.Context(), e, aBody)
		var p interface{ Permanent() bool }
		if !errors.As(err, &p) || !p.Permanent() {
			t.Errorf("%q: got %v, want a permanent error", id, err)
		}
	}
	if len(got) != 0 {
		t.Error("a request was sent")
	}
}

func TestErrorsHideTheURL(t *testing.T) {
	t.Parallel()
	failing := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	broken := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for name, tt := range map[string]struct {
		base    string
		allowed []netip.Prefix
	}{
		"status":         {failing.URL, loopback},
		"broken answer":  {broken.URL, loopback},
		"no server":      {closed.URL, loopback},
		"private target": {failing.URL, nil},
	} {
		target := strings.Replace(tt.base, "http://", "http://s3cretuser:s3cretpass@", 1) + "/s3cretpath?token=s3crettoken"
		err := newWebhook(t, target, aKey, tt.allowed).Send(t.Context(), anEvent, aBody)
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error shows the URL: %v", name, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 22, 14, 30, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"120":                           2 * time.Minute,
		"-5":                            0,
		"1.5":                           0,
		"soon":                          0,
		"9223372036854775807":           maxRetryAfter,
		"99999999999999999999999":       0,
		"Fri, 22 May 2026 14:31:30 GMT": 90 * time.Second,
		"Fri, 22 May 2026 14:29:00 GMT": 0,
		"Fri, 01 Jan 9999 00:00:00 GMT": maxRetryAfter,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "0", "17", "-1", "Fri, 22 May 2026 14:31:30 GMT", "18446744073709551615"} {
		f.Add(seed, int64(1_700_000_000))
	}
	f.Fuzz(func(t *testing.T, value string, now int64) {
		if got := retryAfter(value, time.Unix(now, 0)); got < 0 || got > maxRetryAfter {
			t.Errorf("got %s", got)
		}
	})
}
