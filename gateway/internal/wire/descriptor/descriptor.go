// Package descriptor reads descriptors from requests: the claims, headers, query parameters,
// addresses and identities by which rules, kill switches and fingerprints distinguish them.
//
// It knows a bundle's settings of tokens and proxies, not what the values are used for.
package descriptor

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/policy"
)

// Reader reads descriptors by the settings of one bundle. Many goroutines may use it at
// once.
type Reader struct {
	tokens  *tokens
	proxies []netip.Prefix
}

// New returns the reader of a bundle. jwt may be nil; getenv finds the secrets that it
// names, and client reads its key set.
func New(jwt *policy.JWT, proxies []netip.Prefix, getenv func(string) string, client *http.Client) *Reader {
	return &Reader{tokens: newTokens(jwt, getenv, client), proxies: proxies}
}

// Subject is the request whose descriptors are read.
type Subject struct {
	HTTP     *http.Request
	Identity *checkpb.Identity
	Model    string
}

// Values are the descriptors of one request. Its token is read at most once, and only for a
// descriptor that needs it. They belong to one goroutine.
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
	// Unverified marks a claim of a token without a good signature: anyone can have
	// written it.
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

func (v *Values) plain(d policy.Descriptor) (text string, ok bool) {
	switch d.Source {
	case "header":
		values := headerValues(v.subject.HTTP.Header, d.Name)
		return strings.Join(values, ","), len(values) > 0
	case "query":
		values := v.subject.HTTP.URL.Query()[d.Name]
		return strings.Join(values, ","), len(values) > 0
	case "ip":
		if header := d.Proxied(); header != "" {
			return v.proxied(header)
		}
		return v.address()
	case "ua":
		return v.agent(d.Name)
	case "caller":
		text = v.subject.Identity.GetCaller()
	case "tenant":
		text = v.subject.Identity.GetTenant()
	case "project":
		text = v.subject.Identity.GetProject()
	case "session":
		text = v.subject.Identity.GetSession()
	case "model":
		text = v.subject.Model
	}
	return text, text != ""
}

// headerValues returns the values of a header. A name with underscores is also that of the
// header with hyphens, as in Fairvisor, whose bundles name headers so.
func headerValues(h http.Header, name string) []string {
	if values := h.Values(name); len(values) > 0 || !strings.Contains(name, "_") {
		return values
	}
	return h.Values(strings.ReplaceAll(name, "_", "-"))
}

// proxied returns a header with which a trusted proxy classifies the client's address. The
// proxy must set or remove it; a client's own header is not used.
func (v *Values) proxied(header string) (string, bool) {
	peer, err := netip.ParseAddrPort(v.subject.HTTP.RemoteAddr)
	values := v.subject.HTTP.Header.Values(header)
	if err != nil || len(values) == 0 || !v.reader.trusted(peer.Addr().Unmap().WithZone("")) {
		return "", false
	}
	value := strings.TrimSpace(values[len(values)-1]) // the nearest proxy's
	if header == "X-Tor-Exit" {
		return yesOrNo(value)
	}
	return value, value != ""
}

// yesOrNo returns "true" or "false", as bundles compare them, for the words of proxies.
func yesOrNo(value string) (string, bool) {
	switch strings.ToLower(value) {
	case "1", "true", "yes":
		return "true", true
	case "0", "false", "no":
		return "false", true
	default:
		return "", false
	}
}

// agent returns whether the client's program is a bot, or the bot's category.
func (v *Values) agent(name string) (string, bool) {
	program := v.subject.HTTP.UserAgent()
	if program == "" {
		return "", false
	}
	category := botCategory(program)
	if name == "bot_category" {
		return category, category != ""
	}
	return strconv.FormatBool(category != ""), true
}

// address returns the client's address: the peer's own, or behind trusted proxies that of
// the newest hop that is no trusted proxy. Hops that a client made up stand further left,
// and are never reached.
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
	return slices.ContainsFunc(r.proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}
