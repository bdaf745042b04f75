package admit

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/gateway/internal/edge/auth"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/kit/access"
)

// goodKey is a key that gate lets in.
const goodKey = "0123456789abcdef0123456789abcdef"

// gate lets the holder of goodKey in, and puts in the provider's key of keyed.
func gate(t *testing.T, keyed ...string) *Gate {
	t.Helper()
	t.Setenv("ADMIT_TEST_KEY", goodKey)
	g, err := New(auth.Config{Sources: []string{"key:env:ADMIT_TEST_KEY"}}, keyed, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// sent is a request with headers, in pairs, to an upstream.
func sent(upstream string, headers ...string) (*http.Request, *request.Request) {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r, request.New(r, route.Target{Upstream: upstream, Format: chat.Format})
}

func TestClientsAreLetInByTheirKey(t *testing.T) { //nolint:tparallel // the key is in the environment
	g := gate(t, "openai")
	for name, c := range map[string]struct {
		upstream, header, value string
		code                    string
	}{
		"Unloop's key":                           {"other", access.Header, goodKey, ""},
		"a wrong key":                            {"other", access.Header, "wrong", "unloop_key_invalid"},
		"no key":                                 {"other", "X-Other", "x", "unloop_key_missing"},
		"in the provider's place, which we fill": {"openai", "Authorization", "Bearer " + goodKey, ""},
		"in the provider's place, which they fill": {"other", "Authorization", "Bearer " + goodKey, "unloop_key_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, req := sent(c.upstream, c.header, c.value)
			client, refusal := g.Client(r, req)
			if refusal == nil && (c.code != "" || client.ID == "") || refusal != nil && (refusal.Code != c.code || client.ID != "") {
				t.Errorf("client %+v, refusal %+v; want %q", client, refusal, c.code)
			}
			if r.Header.Get(access.Header) != "" {
				t.Error("Unloop's own key would reach the upstream")
			}
		})
	}
}

func TestWithoutKeysEverybodyIsLetIn(t *testing.T) {
	t.Parallel()
	g, err := New(auth.Config{}, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	r, req := sent("openai", access.Header, "anything")
	if client, refusal := g.Client(r, req); refusal != nil || client.ID != "" || r.Header.Get(access.Header) != "" {
		t.Errorf("client %+v, refusal %+v, headers %v", client, refusal, r.Header)
	}
	if refusal := g.Known(r); refusal != nil {
		t.Errorf("refused %+v", refusal)
	}
	if err := g.Run(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAFaultOfTheConfigurationIsReported(t *testing.T) {
	t.Parallel()
	if _, err := New(auth.Config{Issuer: "x"}, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry()); err == nil {
		t.Error("no error")
	}
}

func TestKnownLooksWhereverAKeyMayStand(t *testing.T) { //nolint:tparallel // the key is in the environment
	plain, keyed := gate(t), gate(t, "openai")
	for name, c := range map[string]struct {
		gate          *Gate
		header, value string
		code          string
	}{
		"Unloop's key":                    {plain, access.Header, goodKey, ""},
		"a provider's place":              {plain, "X-Api-Key", goodKey, "unloop_key_missing"},
		"a place that we fill":            {keyed, "X-Api-Key", goodKey, ""},
		"another place that we fill":      {keyed, "Authorization", "Bearer " + goodKey, ""},
		"a wrong key in a place":          {keyed, "X-Goog-Api-Key", "wrong", "unloop_key_invalid"},
		"no key at all":                   {keyed, "X-Other", "x", "unloop_key_missing"},
		"a wrong key outranks the places": {keyed, access.Header, "wrong", "unloop_key_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := sent("", c.header, c.value)
			if refusal := c.gate.Known(r); refusal == nil && c.code != "" || refusal != nil && refusal.Code != c.code {
				t.Errorf("refusal %+v, want %q", refusal, c.code)
			}
		})
	}
	if n := testutil.ToFloat64(keyed.results.WithLabelValues("ok")); n != 0 {
		t.Errorf("%v counted as let in before the check was read", n)
	}
}

func TestEachReasonHasItsRefusal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err     error
		status  int
		label   string
		headers string
	}{
		"missing":     {auth.ErrMissing, 401, "missing", `WWW-Authenticate: Bearer realm="unloop", X-Should-Retry: false`},
		"wrong":       {auth.ErrWrong, 401, "wrong", `WWW-Authenticate: Bearer realm="unloop", X-Should-Retry: false`},
		"other":       {errors.New("anything"), 401, "wrong", `WWW-Authenticate: Bearer realm="unloop", X-Should-Retry: false`},
		"limited":     {&auth.LimitedError{After: 90 * time.Second}, 429, "limited", "Retry-After: 90, X-Should-Retry: false"},
		"unavailable": {auth.ErrUnavailable, 503, "unavailable", "Retry-After: 1"},
	} {
		refusal, label := refuse(c.err)
		if refusal.Status != c.status || label != c.label || headers(refusal) != c.headers || refusal.Message == "" {
			t.Errorf("%s: %+v as %s", name, refusal, label)
		}
	}
}

func TestPagesAreRefusedUnlessTheyAreAllowed(t *testing.T) {
	t.Parallel()
	g, err := New(auth.Config{}, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if g.Pages, err = access.NewPages(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, access.Allowed{AllowOrigin: []string{"https://app.example"}}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		host, origin string
		code         string
		ours         bool
	}{
		"no page":        {"127.0.0.1", "", "", false},
		"another page":   {"127.0.0.1", "https://evil.example", "foreign_origin", false},
		"an allowed one": {"127.0.0.1", "https://app.example", "", true},
		"another host":   {"evil.example", "", "foreign_host", false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		refusal := g.Page(r)
		if (refusal == nil) != (c.code == "") || refusal != nil && (refusal.Code != c.code || refusal.Status != 403 || headers(*refusal) != "X-Should-Retry: false") {
			t.Errorf("%s: %+v", name, refusal)
		}
		answer := http.Header{"Access-Control-Allow-Origin": {"*"}, "X-Other": {"x"}}
		if g.OwnPages(r, answer); (answer.Get("Access-Control-Allow-Origin") == "") != c.ours || answer.Get("X-Other") == "" {
			t.Errorf("%s: answer %v", name, answer)
		}
	}
	if n := testutil.ToFloat64(g.foreign.WithLabelValues("foreign_origin")); n != 1 {
		t.Errorf("%v pages are counted as refused", n)
	}
}

func headers(r provider.Refusal) string {
	var out []string
	for _, h := range r.Headers {
		out = append(out, h.Name+": "+h.Value)
	}
	return strings.Join(out, ", ")
}

func TestCallerKeyTellsClientsApart(t *testing.T) {
	t.Parallel()
	g := &Gate{keyed: []string{"openai"}}
	for name, c := range map[string]struct {
		upstream, key, client string
		want                  string
	}{
		"the provider's key":                 {"other", "sk-one", "", "sk-one"},
		"of an authenticated client":         {"other", "sk-one", "key:1", "sk-one"},
		"none":                               {"other", "", "", ""},
		"none, of an authenticated client":   {"other", "", "key:1", "\x00key:1"},
		"a key that is ours, not its own":    {"openai", goodKey, "key:1", "\x00key:1"},
		"a key of nobody who is known to us": {"openai", "sk-one", "", "sk-one"},
	} {
		r, req := sent(c.upstream)
		if c.key != "" {
			r.Header.Set("Authorization", "Bearer "+c.key)
		}
		if got := g.CallerKey(r, req, request.Principal{ID: c.client}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
