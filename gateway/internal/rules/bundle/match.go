package bundle

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/unloop/unloop/schemas/glob"
	"github.com/unloop/unloop/schemas/policy"
)

// Request has the properties of a request that selectors compare.
type Request struct {
	Method string
	// Path is the path that the client sent, without the query.
	Path string
	// Also has other paths that selectors may match, such as the upstream's.
	Also []string
	// Host may have a port and be in any case.
	Host string
	// Model is empty if the request names none.
	Model    string
	Upstream string
	Tenant   string
	Project  string
	Caller   string
	// Header returns a header's first value; "" if there is none. It may be nil.
	Header func(name string) string
}

// Match returns all policies that apply to a request, each once, in the bundle's order. Its
// time depends on how many policies match, not on how many there are, and it makes at most
// one allocation.
func (s *Set) Match(r *Request) []*Policy {
	var space [16]*Policy
	found := s.index.lookup(space[:0], r, canonicalHost(r.Host))
	slices.SortFunc(found, func(a, b *Policy) int { return cmp.Compare(a.order, b.order) })
	return slices.Clone(slices.Compact(found))
}

// matcher is a compiled selector. A nil set allows everything.
type matcher struct {
	exact    set
	prefixes []string // each ends in /
	methods  set
	hosts    set
	upstream set
	tenant   set
	project  set
	caller   set
	models   []string
	headers  []headerMatch
	// nothing says that no request matches.
	nothing bool
}

type headerMatch struct{ name, value string }

type set map[string]struct{}

func newSet(values []string, canonical func(string) string) set {
	if len(values) == 0 {
		return nil
	}
	s := set{}
	for _, v := range values {
		s[canonical(v)] = struct{}{}
	}
	return s
}

func (s set) allows(value string) bool {
	if s == nil {
		return true
	}
	_, ok := s[value]
	return ok
}

func asIs(s string) string { return s }

func compileSelector(s *policy.Selector) matcher {
	m := matcher{
		methods: newSet(s.Methods, strings.ToUpper), hosts: newSet(s.Hosts, canonicalHost),
		upstream: newSet(s.Upstream, asIs), tenant: newSet(s.Tenant, asIs),
		project: newSet(s.Project, asIs), caller: newSet(s.Caller, asIs), models: s.Models,
	}
	exact := slices.Clone(s.PathExact)
	for _, prefix := range s.PathPrefix {
		// A prefix that does not end in a slash covers its own path too.
		if !strings.HasSuffix(prefix, "/") {
			exact = append(exact, prefix)
			prefix += "/"
		}
		m.prefixes = append(m.prefixes, prefix)
	}
	m.exact = newSet(exact, asIs)
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		m.headers = append(m.headers, headerMatch{name, s.Headers[name]})
	}
	return m
}

func (m *matcher) matches(r *Request, host string) bool {
	return !m.nothing && m.methods.allows(r.Method) && m.tenant.allows(r.Tenant) && m.project.allows(r.Project) &&
		m.caller.allows(r.Caller) && m.upstream.allows(r.Upstream) && m.hosts.allows(host) &&
		m.matchesPaths(r) && (len(m.models) == 0 || glob.MatchAny(m.models, r.Model)) && m.matchesHeaders(r)
}

func (m *matcher) matchesPaths(r *Request) bool {
	return m.matchesPath(r.Path) || slices.ContainsFunc(r.Also, m.matchesPath)
}

func (m *matcher) matchesPath(path string) bool {
	if m.exact == nil && m.prefixes == nil {
		return true
	}
	_, exact := m.exact[path]
	return exact || slices.ContainsFunc(m.prefixes, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

func (m *matcher) matchesHeaders(r *Request) bool {
	return !slices.ContainsFunc(m.headers, func(h headerMatch) bool {
		value := r.header(h.name)
		return value == "" || !glob.Match(h.value, value)
	})
}

func (r *Request) header(name string) string {
	if r.Header == nil {
		return ""
	}
	return r.Header(name)
}

// canonicalHost returns a host name in lower case, without port, trailing dot or the
// brackets of an IPv6 address.
func canonicalHost(host string) string {
	if strings.HasPrefix(host, "[") {
		host, _, _ = strings.Cut(host[1:], "]")
	} else if i := strings.IndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i+1:], ':') < 0 {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
