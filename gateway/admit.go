package gateway

import (
	"errors"
	"net/http"
	"slices"

	"github.com/unloop/unloop/gateway/internal/auth"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/provider/formats"
	"github.com/unloop/unloop/gateway/internal/route"
	"github.com/unloop/unloop/schemas/kit/access"
)

// newAuth returns what --auth asks for; nil if it lets everybody in.
func (g *Gateway) newAuth() (*auth.Authenticator, error) {
	return auth.New(auth.Config{
		Sources: g.cfg.Auth, Issuer: g.cfg.AuthIssuer, Audiences: g.cfg.AuthAudience, TenantClaim: g.cfg.AuthTenantClaim,
	}, g.log)
}

// admit finds out who the client is, or answers. Unloop's own key stays here,
// whether it is asked for or not.
func (g *Gateway) admit(w http.ResponseWriter, x *exchange) bool {
	credential := x.Header.Get(access.Header)
	x.Header.Del(access.Header)
	if !g.cfg.Guarded() {
		return true
	}
	if credential == "" && g.upstreamKeys.have(x.Target) {
		credential = x.Provider.Key(x.r) // the provider's own key does not come from clients
	}
	var err error
	if x.Client, err = g.auth.Authenticate(x.r.Context(), x.r.RemoteAddr, credential); err == nil {
		g.metrics.auth.WithLabelValues("ok").Inc()
		return true
	}
	refusal, result := g.unauthenticated(err)
	g.metrics.auth.WithLabelValues(result).Inc()
	g.log.Debug("client not let in", "address", x.r.RemoteAddr, "reason", err)
	g.refuseClient(w, x, refusal, err)
	return false
}

// knock answers a check whose client would be let in at no upstream, before
// anything of its body is read. Which place its key belongs in stands in the
// body, and admit looks there.
func (g *Gateway) knock(w http.ResponseWriter, r *http.Request) bool {
	if !g.cfg.Guarded() {
		return true
	}
	x := g.newExchange(r, route.Target{Format: route.Chat})
	err := auth.ErrMissing
	for _, credential := range g.credentials(r) {
		if _, err = g.auth.Authenticate(r.Context(), r.RemoteAddr, credential); err == nil {
			return true
		}
	}
	refusal, result := g.unauthenticated(err)
	g.metrics.auth.WithLabelValues(result).Inc()
	g.refuseClient(w, x, refusal, err)
	return false
}

// credentials are what a check's client may be let in by: Unloop's own key, else
// what stands where providers' keys do, if the gateway has those itself.
func (g *Gateway) credentials(r *http.Request) []string {
	if own := r.Header.Get(access.Header); own != "" || len(g.upstreamKeys) == 0 {
		return []string{own}
	}
	var found []string
	for _, format := range []route.Format{route.Chat, route.Messages, route.Generate} {
		if key := formats.All[format].Key(r); key != "" && !slices.Contains(found, key) {
			found = append(found, key)
		}
	}
	return found
}

// unauthenticated says how a client is told, and metrics count, why it is not
// let in.
func (g *Gateway) unauthenticated(err error) (r provider.Refusal, result string) {
	switch {
	case errors.Is(err, auth.ErrMissing):
		return provider.Refusal{
			Status: http.StatusUnauthorized, Code: "unloop_key_missing",
			Message: "this gateway asks for a key or token of its own: send it in the header " + access.Header,
		}, "missing"
	case errors.As(err, new(*auth.LimitedError)):
		return provider.Refusal{
			Status: http.StatusTooManyRequests, Code: "too_many_wrong_keys",
			Message: "too many wrong keys or tokens came from this address",
		}, "limited"
	case errors.Is(err, auth.ErrUnavailable):
		return provider.Refusal{
			Status: http.StatusServiceUnavailable, Code: "token_issuer_unavailable",
			Message: "tokens can't be checked now: the keys of their issuer are not available",
		}, "unavailable"
	default:
		return provider.Refusal{
			Status: http.StatusUnauthorized, Code: "unloop_key_invalid",
			Message: "this gateway does not accept the key or token",
		}, "wrong"
	}
}

func (g *Gateway) refuseClient(w http.ResponseWriter, x *exchange, r provider.Refusal, err error) {
	var limited *auth.LimitedError
	switch {
	case errors.As(err, &limited):
		w.Header().Set("Retry-After", access.Seconds(limited.After))
	case r.Status == http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	default:
		w.Header().Set("WWW-Authenticate", `Bearer realm="unloop"`)
	}
	if r.Status != http.StatusServiceUnavailable {
		w.Header().Set("X-Should-Retry", "false") // the same key is as wrong the next time
	}
	g.refuse(w, x, r)
}

// callerKey is what tells the client from others: its provider's key, or what
// it was authenticated by where it has none of its own.
func (g *Gateway) callerKey(x *exchange) string {
	key := x.Provider.Key(x.r)
	if x.Client.ID != "" && (key == "" || g.upstreamKeys.have(x.Target)) {
		return "\x00" + x.Client.ID // no header can hold this byte
	}
	return key
}
