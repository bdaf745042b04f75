// Package admit authenticates the clients of the gateway by an Unloop key or a token, and
// refuses other clients and web pages that are not allowed.
//
// It knows where a request carries credentials. It reads no bodies, and knows neither
// policies nor detectors.
package admit

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/edge/auth"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/kit/access"
	"github.com/unloop/unloop/schemas/kit/metric"
)

// Gate authenticates clients. Make it with New; Run keeps the keys of tokens up to date.
type Gate struct {
	auth    *auth.Authenticator
	guarded bool
	// keyed are the upstreams for which the gateway sets the provider key. Their clients may
	// send Unloop's key in its place.
	keyed []string
	// Pages are the exceptions for web pages; nil lets all of them in.
	Pages            *access.Pages
	log              *slog.Logger
	results, foreign *prometheus.CounterVec
}

// New returns the gate for a configuration. Without a source of keys it admits everybody.
// keyed are the upstreams for which the gateway has a provider key.
func New(cfg auth.Config, keyed []string, log *slog.Logger, reg prometheus.Registerer) (*Gate, error) {
	authenticator, err := auth.New(cfg, log)
	if err != nil {
		return nil, err
	}
	g := &Gate{
		auth: authenticator, guarded: len(cfg.Sources) > 0, keyed: keyed, log: log,
		results: metric.Counters(reg, "unloop_gateway_auth_total", "Requests by the result of authentication: ok, missing, wrong, limited (too many failures from this address), or unavailable (the issuer's keys cannot be read).", "result"),
		foreign: metric.Counters(reg, "unloop_gateway_foreign_total", "Requests refused because a web page may have sent them, by reason: foreign_host or foreign_origin.", "reason"),
	}
	if _, issuer := authenticator.KeysRead(); issuer {
		metric.GaugeFunc(reg, "unloop_gateway_token_keys_timestamp_seconds", "Time of the last read of the token issuer's keys; 0 if never. Only with --auth jwt:URL.", g.keysRead)
	}
	return g, nil
}

// keysRead returns when the issuer's keys were read, in seconds since 1970; 0 is never.
func (g *Gate) keysRead() float64 {
	at, _ := g.auth.KeysRead()
	if at.IsZero() {
		return 0
	}
	return float64(at.Unix())
}

// Run keeps the keys of tokens up to date until the context ends.
func (g *Gate) Run(ctx context.Context) error { return g.auth.Run(ctx) }

// Client authenticates the client of a request, and removes Unloop's key from it, so that no
// upstream sees the key.
func (g *Gate) Client(r *http.Request, req *request.Request) (request.Principal, *provider.Refusal) {
	credential := r.Header.Get(access.Header)
	r.Header.Del(access.Header)
	if !g.guarded {
		return request.Principal{}, nil
	}
	if credential == "" && g.keys(req.Target) {
		credential = req.Provider.Key(r) // the provider's own key does not come from clients
	}
	client, refusal := g.authenticate(r, credential)
	if refusal == nil {
		g.results.WithLabelValues("ok").Inc()
	}
	return client, refusal
}

// Known refuses a client whose credentials are not valid for any upstream. A check names its
// upstream in the body, so Known decides whether the body is read; Client must follow.
func (g *Gate) Known(r *http.Request) *provider.Refusal {
	if !g.guarded {
		return nil
	}
	_, refusal := g.authenticate(r, g.credentials(r)...)
	return refusal
}

// credentials returns the keys that may admit the client of a check: Unloop's key or, if the
// gateway has provider keys, those that the client sent in a provider's place.
func (g *Gate) credentials(r *http.Request) []string {
	if own := r.Header.Get(access.Header); own != "" || len(g.keyed) == 0 {
		return []string{own}
	}
	var found []string
	for _, format := range formats.All {
		if key := format.Key(r); key != "" && !slices.Contains(found, key) {
			found = append(found, key)
		}
	}
	return found
}

// authenticate returns the client that holds one of the credentials.
func (g *Gate) authenticate(r *http.Request, credentials ...string) (who request.Principal, _ *provider.Refusal) {
	err := auth.ErrMissing
	for _, credential := range credentials {
		if who, err = g.auth.Authenticate(r.Context(), r.RemoteAddr, credential); err == nil {
			return who, nil
		}
	}
	refusal, result := refuse(err)
	g.results.WithLabelValues(result).Inc()
	g.log.Debug("client not let in", "address", r.RemoteAddr, "reason", err)
	return request.Principal{}, &refusal
}

// refuse returns the refusal for an error of authentication, and its label in metrics.
func refuse(err error) (r provider.Refusal, result string) {
	var limited *auth.LimitedError
	challenge := []provider.Header{{Name: "WWW-Authenticate", Value: `Bearer realm="unloop"`}, NoRetry}
	switch {
	case errors.Is(err, auth.ErrMissing):
		return provider.Refusal{
			Status: http.StatusUnauthorized, Code: "unloop_key_missing", Headers: challenge,
			Message: "this gateway asks for a key or token of its own: send it in the header " + access.Header,
		}, "missing"
	case errors.As(err, &limited):
		return provider.Refusal{
			Status: http.StatusTooManyRequests, Code: "too_many_wrong_keys", Headers: []provider.Header{retryAfter(access.Seconds(limited.After)), NoRetry},
			Message: "too many wrong keys or tokens came from this address",
		}, "limited"
	case errors.Is(err, auth.ErrUnavailable):
		return provider.Refusal{
			Status: http.StatusServiceUnavailable, Code: "token_issuer_unavailable", Headers: []provider.Header{retryAfter("1")},
			Message: "tokens can't be checked now: the keys of their issuer are not available",
		}, "unavailable"
	default:
		return provider.Refusal{
			Status: http.StatusUnauthorized, Code: "unloop_key_invalid", Headers: challenge,
			Message: "this gateway does not accept the key or token",
		}, "wrong"
	}
}

// NoRetry tells clients that the same request would be refused again.
var NoRetry = provider.Header{Name: "X-Should-Retry", Value: "false"}

func retryAfter(seconds string) provider.Header {
	return provider.Header{Name: "Retry-After", Value: seconds}
}

// CallerKey returns the identity of a client: its provider key, or else its Unloop key or
// token.
func (g *Gate) CallerKey(r *http.Request, req *request.Request, client request.Principal) string {
	key := req.Provider.Key(r)
	if client.ID != "" && (key == "" || g.keys(req.Target)) {
		return "\x00" + client.ID // no header can hold this byte
	}
	return key
}

// keys reports whether the gateway sets the provider key of a target.
func (g *Gate) keys(t route.Target) bool { return slices.Contains(g.keyed, t.Upstream) }

// Page returns the refusal of a request that a web page may have sent; nil for others.
func (g *Gate) Page(r *http.Request) *provider.Refusal {
	fault := g.Pages.Check(r)
	if fault == nil {
		return nil
	}
	g.foreign.WithLabelValues(fault.Code).Inc()
	return &provider.Refusal{Status: http.StatusForbidden, Code: fault.Code, Message: fault.Message, Headers: []provider.Header{NoRetry}}
}

// OwnPages removes the CORS headers of an upstream's answer if the gateway sets its own.
func (g *Gate) OwnPages(r *http.Request, answer http.Header) {
	if !g.Pages.Allows(r.Header.Get("Origin")) {
		return
	}
	for name := range answer {
		if strings.HasPrefix(name, "Access-Control-") {
			answer.Del(name)
		}
	}
}
