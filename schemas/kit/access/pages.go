package access

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Allowed has the flags for exceptions at a port.
type Allowed struct {
	AllowHost   []string `placeholder:"NAME" help:"Host name under which clients may address this process, in addition to localhost and loopback addresses. Ports on loopback refuse other names; with this flag all ports do. Repeatable."`
	AllowOrigin []string `placeholder:"ORIGIN" help:"Origin of web pages that may use this process, such as https://app.example, or vscode-webview://* for every page of a scheme. Other pages are refused. Repeatable."`
}

// Pages refuses requests that web pages make a browser send to a port: a browser on the
// same machine reaches every loopback port. It checks the Host header, which a page
// behind a rebound DNS name can't choose, and Origin and Sec-Fetch-Site, which no page
// can omit or forge. The nil Pages refuses nothing.
type Pages struct {
	// named is set if the Host header is checked, loopback if it must name this machine.
	named, loopback bool
	hosts, origins  []string
}

// PageError is the reason for which a request is refused, with a remedy.
type PageError struct{ Code, Message string }

func (e *PageError) Error() string { return e.Message }

// foreignOrigin is the code for pages of other origins.
const foreignOrigin = "foreign_origin"

// NewPages returns the check for a port that listens at addr. The error has every fault of
// allowed.
func NewPages(addr net.Addr, allowed Allowed) (*Pages, error) {
	p := &Pages{}
	if at, err := netip.ParseAddrPort(addr.String()); err == nil {
		p.loopback = at.Addr().Unmap().IsLoopback()
	}
	var faults []error
	for _, host := range allowed.AllowHost {
		name := hostname(host)
		if name == "" || strings.ContainsAny(host, "/@* ") {
			faults = append(faults, fmt.Errorf("--allow-host %s: must be one host name, such as gateway.internal", host))
		}
		p.hosts = append(p.hosts, name)
	}
	for _, origin := range allowed.AllowOrigin {
		if !readableOrigin(origin) {
			faults = append(faults, fmt.Errorf("--allow-origin %s: must be an origin as browsers send it, such as https://app.example or file://, or all of a program's own scheme, such as vscode-webview://*", origin))
		}
		p.origins = append(p.origins, strings.ToLower(origin))
	}
	p.named = p.loopback || len(p.hosts) > 0
	return p, errors.Join(faults...)
}

// readableOrigin reports whether an exception is one origin, or all origins of a scheme
// that no web site can have.
func readableOrigin(origin string) bool {
	if origin == "file://" {
		return true
	}
	if scheme, all := strings.CutSuffix(origin, "://*"); all {
		return ownScheme(scheme)
	}
	u, err := url.Parse(origin)
	return err == nil && u.Scheme != "" && u.Host != "" && u.User == nil && u.Path == "" && u.RawQuery == "" && !strings.Contains(origin, "*")
}

// ownScheme reports whether a scheme belongs to programs, such as editors and browser
// extensions, rather than to web sites.
func ownScheme(scheme string) bool {
	if scheme == "" || strings.ContainsAny(scheme, ":/*. ") {
		return false
	}
	return !slices.Contains([]string{"http", "https", "ws", "wss"}, strings.ToLower(scheme))
}

// Check returns an error for a request that a page may have sent that is not allowed.
func (p *Pages) Check(r *http.Request) *PageError {
	if p == nil {
		return nil
	}
	if !p.knows(r.Host) {
		return &PageError{Code: "foreign_host", Message: "the Host header names another machine, as a web page behind a rebound DNS name would; " +
			"address the gateway as localhost or 127.0.0.1, or allow the name with --allow-host"}
	}
	origin := r.Header.Get("Origin")
	if origin != "" && len(r.Header.Values("Origin")) == 1 && p.Allows(origin) {
		return nil
	}
	own := origin == "" && len(r.Header.Values("Origin")) == 0 || len(r.Header.Values("Origin")) == 1 && sameHost(origin, r.Host)
	if own && sameSite(r.Header) && !preflight(r) {
		return nil
	}
	return &PageError{Code: foreignOrigin, Message: "web pages of another origin may not use this port; " + remedy(origin)}
}

// remedy returns how to allow an origin, if that is possible.
func remedy(origin string) string {
	const longest = 100
	if origin = strings.ToLower(origin); len(origin) <= longest && readableOrigin(origin) {
		return "allow it with --allow-origin " + origin
	}
	return "allow the origin with --allow-origin; a page without one (null) can't be allowed"
}

// Allows reports whether pages of an origin are an exception.
func (p *Pages) Allows(origin string) bool {
	if p == nil || len(p.origins) == 0 {
		return false
	}
	origin = strings.ToLower(origin)
	scheme, _, _ := strings.Cut(origin, "://")
	return slices.Contains(p.origins, origin) || ownScheme(scheme) && slices.Contains(p.origins, scheme+"://*")
}

// knows reports whether a Host header is allowed. No browser omits it.
func (p *Pages) knows(host string) bool {
	if !p.named || host == "" {
		return true
	}
	name := hostname(host)
	if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return !p.loopback || addr.Unmap().IsLoopback() || slices.Contains(p.hosts, name)
	}
	return name == "localhost" || slices.Contains(p.hosts, name)
}

// Loopback reports whether the host of an address or URL is a loopback one.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// hostname returns a host without its port and final dot, in lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// sameHost reports whether an origin is the server that the request addresses.
func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && strings.EqualFold(u.Host, host)
}

// sameSite reports whether a browser, if there is one, says that the request comes from a
// page of this server or from the user.
func sameSite(h http.Header) bool {
	return !slices.ContainsFunc(h.Values("Sec-Fetch-Site"), func(site string) bool { return site != "same-origin" && site != "none" })
}

// preflight reports whether a request is a CORS preflight (Fetch Standard, 3.2.2).
func preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// Answer sets the headers that let an allowed page read the answer. It answers preflights
// itself, and reports whether it did.
func (p *Pages) Answer(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if !p.Allows(origin) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	if !preflight(r) {
		h.Set("Access-Control-Expose-Headers", "*")
		return false
	}
	h.Set("Access-Control-Allow-Methods", r.Header.Get("Access-Control-Request-Method"))
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h.Set("Access-Control-Allow-Headers", asked)
	}
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// follows reports whether a person follows a link to the start page: no other page can read
// what the browser then shows.
func follows(r *http.Request) bool {
	only := func(name, value string) bool { return slices.Equal(r.Header.Values(name), []string{value}) }
	return r.Method == http.MethodGet && r.URL.Path == "/" && len(r.Header.Values("Origin")) == 0 &&
		only("Sec-Fetch-Mode", "navigate") && only("Sec-Fetch-Dest", "document")
}

// Protect returns a handler that answers 403 to requests from pages. Links to the start page
// work from every page.
func (p *Pages) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fault := p.Check(r); fault != nil && (fault.Code != foreignOrigin || !follows(r)) {
			http.Error(w, fault.Code+": "+fault.Message, http.StatusForbidden)
			return
		}
		if !p.Answer(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}
