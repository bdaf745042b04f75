// Package route decides from a request's path which upstream gets it, under which path,
// and in which wire format it is read.
//
// It changes no more of a path than the prefix that names the upstream, and knows nothing
// of bodies.
package route

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
)

// Default is the upstream of the paths that no other upstream has.
const Default = "default"

// Reserved is the path prefix of Unloop's own API.
const Reserved = "/unloop/"

// Target is the destination of a request.
type Target struct {
	Upstream string
	Format   *provider.Format
	URL      *url.URL
	// Canonical is the same for all ways to write one path of one upstream.
	Canonical string
	// Paths are the other paths of the request that policies and kill switches match:
	// as the upstream reads it, with and without the upstream's own prefix.
	Paths []string
	// Escapes says that dot segments lead out of the upstream's base path, so that the
	// request must not be forwarded.
	Escapes bool
}

// Table routes requests to a set of upstreams.
type Table struct {
	upstreams map[string]*url.URL
	// configured are the upstreams that the operator named.
	configured map[string]string
}

// NewTable returns a table of upstreams by name, beside those of the formats. It reports
// every fault at once.
func NewTable(upstreams map[string]string) (*Table, error) {
	all := map[string]string{}
	for _, u := range formats.Upstreams {
		if u.Address != "" {
			all[u.Name] = u.Address
		}
	}
	maps.Copy(all, upstreams)
	t := &Table{upstreams: map[string]*url.URL{}, configured: upstreams}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		u, err := parseUpstream(name, all[name])
		faults = append(faults, err)
		t.upstreams[name] = u
	}
	return t, errors.Join(faults...)
}

func parseUpstream(name, addr string) (*url.URL, error) {
	u, err := url.Parse(addr)
	switch {
	case name == "" || strings.ContainsAny(name, "/?#% ") || name == "unloop" || isVersion(name):
		return nil, fmt.Errorf("--upstream %s: the name must be one path segment other than %s and unloop", name, strings.Join(versions, ", "))
	case err != nil:
		return nil, fmt.Errorf("--upstream %s: the URL can't be read", name) // its text may hold a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("--upstream %s: the URL must look like https://host or https://host/v1", name)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("--upstream %s: the URL must have no user, query or fragment", name)
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// versions are the first segments of the upstreams' paths.
var versions = func() (all []string) {
	for _, u := range formats.Upstreams {
		all = append(all, u.Versions...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}()

func isVersion(segment string) bool { return slices.Contains(versions, segment) }

// Known reports whether there is an upstream of a name.
func (t *Table) Known(name string) bool {
	_, known := t.upstreams[name]
	return known
}

// Route returns the destination of a request. If there is no upstream for it, it returns
// false with only the format and the canonical path.
func (t *Table) Route(r *http.Request) (Target, bool) {
	path := r.URL.EscapedPath()
	name, rest := t.upstream(r, path)
	base, known := t.upstreams[name]
	if !known {
		return Target{Format: format(name, path, r.Header), Canonical: clean(path)}, false
	}
	if u := upstreamOf(name); u != nil && u.Host != nil && "https://"+base.Host == u.Address {
		regional := *base
		regional.Host = u.Host(rest)
		base = &regional
	}
	target := Target{Upstream: name, Format: format(name, path, r.Header), URL: join(base, rest, r.URL.RawQuery)}
	target.read(path, rest)
	return target, true
}

// upstreamOf returns the upstream with a name that a format declares; nil for others.
func upstreamOf(name string) *provider.Upstream {
	for _, u := range formats.Upstreams {
		if u.Name == name {
			return u
		}
	}
	return nil
}

// upstream returns the name of the upstream for a path, and the path there. A version that
// stands twice is a mistake of the client's configuration and leads nowhere.
func (t *Table) upstream(r *http.Request, path string) (name, rest string) {
	first, after, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if _, known := t.upstreams[first]; known && first != Default && strings.HasPrefix(path, "/") {
		return first, "/" + after
	}
	switch {
	case !isVersion(first):
		return t.unversioned(r, path), path
	case isTwice(first, after):
		return "", path
	default:
		return versioned(r, first, unescaped(after)).Name, path
	}
}

// versioned returns the upstream for a path behind a version. If several upstreams have the
// version, the path, the headers and the key decide.
func versioned(r *http.Request, version, path string) *provider.Upstream {
	var first *provider.Upstream
	for _, u := range slices.Backward(formats.Upstreams) {
		if !slices.Contains(u.Versions, version) {
			continue
		}
		if first = u; u.Claims != nil && u.Claims(r, path) {
			return u
		}
	}
	if owner := keyOwner(r); owner != nil && slices.Contains(owner.Versions, version) {
		return owner
	}
	return first
}

// unversioned returns the upstream for a path without a version. If the operator named a
// default upstream, others get such paths only if the operator named them, too.
func (t *Table) unversioned(r *http.Request, path string) string {
	_, chosen := t.configured[Default]
	for _, u := range formats.Upstreams {
		_, named := t.configured[u.Name]
		if len(u.Versions) == 0 && u.Claims(r, unescaped(path)) && (named || !chosen) {
			return u.Name
		}
	}
	return Default
}

// format returns the format by the end of the path, so that compatible APIs are read
// whatever their prefix is. Other paths have the format of their upstream.
func format(upstream, path string, h http.Header) *provider.Format {
	path = strings.TrimRight(unescaped(path), "/")
	for _, f := range formats.All {
		if f.Reads(path) {
			return f
		}
	}
	for _, u := range formats.Upstreams {
		if u.Header != "" && h.Get(u.Header) != "" {
			return u.Other
		}
	}
	if u := upstreamOf(upstream); u != nil && u.Other != nil {
		return u.Other
	}
	return formats.HTTP
}

// join returns an upstream's URL with a path below its own. The version that the path
// begins with may be the end of the upstream's own path already.
func join(base *url.URL, path, query string) *url.URL {
	u := *base
	prefix := base.EscapedPath()
	if last := prefix[strings.LastIndexByte(prefix, '/')+1:]; last != "" && isVersion(last) && (path == "/"+last || strings.HasPrefix(path, "/"+last+"/")) {
		prefix = strings.TrimSuffix(prefix, "/"+last)
	}
	u.RawPath = prefix + path
	u.Path, u.RawQuery = unescaped(u.RawPath), query
	return &u
}
