// Package descriptor reads from a request the values that rules, kill switches
// and fingerprints tell requests apart by: claims, headers, query parameters,
// addresses and who asks.
//
// It knows what a bundle says about tokens and proxies, not what the values are
// used for.
package descriptor

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/policy"
)

// Reader reads descriptors as one bundle says. It may be used by many
// goroutines at once.
type Reader struct {
	tokens  *tokens
	proxies []netip.Prefix
}

// New returns the reader of a bundle. jwt may be nil; getenv finds the secrets
// that it names, and client fetches its JWKS.
func New(jwt *policy.JWT, proxies []netip.Prefix, getenv func(string) string, client *http.Client) *Reader {
	return &Reader{tokens: newTokens(jwt, getenv, client), proxies: proxies}
}

// Subject is the request whose descriptors are read.
type Subject struct {
	HTTP     *http.Request
	Identity *checkpb.Identity
	Model    string
}

// Values are the descriptors of one request. A token is read at most once, and
// only if a descriptor asks for it. They belong to one goroutine.
type Values struct {
	reader  *Reader
	subject Subject
	claims  *claims
}

// Values returns the descriptors of a request.
func (r *Reader) Values(s Subject) *Values { return &Values{reader: r, subject: s} }

// Value is a descriptor's value.
type Value struct {
	Text string
	// Unverified marks a claim of a token whose signature was not checked or
	// did not hold: anyone can have written it.
	Unverified bool
}

// Get returns the value of a descriptor; false if the request has none.
func (v *Values) Get(d policy.Descriptor) (Value, bool) {
	if d.Source == "jwt" {
		return v.claim(d.Name)
	}
	text, ok := v.plain(d)
	return Value{Text: text}, ok
}

func (v *Values) plain(d policy.Descriptor) (string, bool) {
	switch d.Source {
	case "header":
		values := v.subject.HTTP.Header.Values(d.Name)
		return strings.Join(values, ","), len(values) > 0
	case "query":
		values := v.subject.HTTP.URL.Query()[d.Name]
		return strings.Join(values, ","), len(values) > 0
	case "ip":
		if d.Name != "address" {
			return "", false // classes of addresses need databases that are not here
		}
		return v.address()
	}
	text := v.known(d.Source)
	return text, text != ""
}

// known are the values that the gateway found out already.
func (v *Values) known(source string) string {
	switch source {
	case "caller":
		return v.subject.Identity.GetCaller()
	case "tenant":
		return v.subject.Identity.GetTenant()
	case "project":
		return v.subject.Identity.GetProject()
	case "session":
		return v.subject.Identity.GetSession()
	case "model":
		return v.subject.Model
	default:
		return ""
	}
}

// address is the client's: the peer's own, or behind trusted proxies the newest
// hop that none of them vouches for. What a client wrote into the header itself
// stands further left, and is never reached.
func (v *Values) address() (string, bool) {
	peer, err := netip.ParseAddrPort(v.subject.HTTP.RemoteAddr)
	if err != nil {
		return "", false
	}
	client := peer.Addr().Unmap().WithZone("")
	hops := strings.Split(strings.Join(v.subject.HTTP.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && v.reader.trusted(client); i-- {
		hop, ok := parseHop(hops[i])
		if !ok {
			break
		}
		client = hop
	}
	return client.String(), true
}

// parseHop reads an entry of X-Forwarded-For, which may have a port.
func parseHop(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if withPort, err := netip.ParseAddrPort(s); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	addr, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return addr.Unmap().WithZone(""), err == nil
}

func (r *Reader) trusted(addr netip.Addr) bool {
	for _, p := range r.proxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
