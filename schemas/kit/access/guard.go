package access

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Header is the header for a key of Unloop's own.
const Header = "X-Unloop-Key"

// Guard protects an HTTP handler by keys.
type Guard struct {
	keys    *Keys
	limiter Limiter
	now     func() time.Time
}

// NewGuard returns a guard for the keys.
func NewGuard(keys *Keys) *Guard { return &Guard{keys: keys, now: time.Now} }

// Protect returns a handler that answers 401 to requests without a valid key, and 429 to
// addresses with too many wrong keys. The key is in X-Unloop-Key, a bearer token, or the
// password of basic authentication, for which browsers have a dialog.
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, wait := g.check(r)
		switch status {
		case http.StatusOK:
			next.ServeHTTP(w, r)
			return
		case http.StatusTooManyRequests:
			w.Header().Set("Retry-After", Seconds(wait))
		default:
			w.Header().Set("WWW-Authenticate", `Basic realm="unloop", charset="UTF-8"`)
		}
		http.Error(w, fmt.Sprintf("%s: send a key of this port in %s, as a bearer token or as a password", http.StatusText(status), Header), status)
	})
}

// Admits reports whether a request has a valid key. A wrong one counts for the limit.
func (g *Guard) Admits(r *http.Request) bool {
	status, _ := g.check(r)
	return status == http.StatusOK
}

func (g *Guard) check(r *http.Request) (status int, wait time.Duration) {
	key := keyOf(r)
	if key == "" {
		return http.StatusUnauthorized, 0
	}
	attempt := NewAttempt(r.RemoteAddr, key, g.now())
	if wait := g.limiter.Wait(attempt); wait > 0 {
		return http.StatusTooManyRequests, wait
	}
	if _, ok := g.keys.Holder(key); !ok {
		g.limiter.Failed(attempt)
		return http.StatusUnauthorized, 0
	}
	g.limiter.Passed(attempt)
	return http.StatusOK, 0
}

func keyOf(r *http.Request) string {
	if key := r.Header.Get(Header); key != "" {
		return key
	}
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return ""
}

// Seconds formats a wait for Retry-After: whole seconds, at least one.
func Seconds(wait time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(wait.Seconds()))))
}
