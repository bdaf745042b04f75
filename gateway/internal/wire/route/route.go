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
)

// Format is a wire format: how a request is read and answered.
type Format int

// The formats. HTTP is any request without a prompt. AnthropicHTTP and GeminiHTTP have no
// prompt either, but keys and errors of their provider.
const (
	HTTP Format = iota
	AnthropicHTTP
	GeminiHTTP
	Chat
	Responses
	Messages // Anthropic
	Generate // Gemini
)

// Prompt reports whether requests of the format have a prompt.
func (f Format) Prompt() bool { return f >= Chat }

// Names of the upstreams that have a meaning of their own.
const (
	OpenAI    = "openai"
	Anthropic = "anthropic"
	Gemini    = "gemini"
	Vertex    = "vertex"
	Default   = "default"
)

// public are the addresses of the known providers.
var public = map[string]string{
	OpenAI:    "https://api.openai.com",
	Anthropic: "https://api.anthropic.com",
	Gemini:    "https://generativelanguage.googleapis.com",
	Vertex:    "https://" + vertexHost,
}

// Reserved is the path prefix of Unloop's own API.
const Reserved = "/unloop/"

// Target is the destination of a request.
type Target struct {
	Upstream string
	Format   Format
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
type Table struct{ upstreams map[string]*url.URL }

// NewTable returns a table of upstreams by name, beside the known providers. It reports
// every fault at once.
func NewTable(upstreams map[string]string) (*Table, error) {
	all := maps.Clone(public)
	maps.Copy(all, upstreams)
	t := &Table{upstreams: map[string]*url.URL{}}
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
		return nil, fmt.Errorf("--upstream %s: the name must be one path segment other than v1, v1beta, v1beta1, v1alpha, upload and unloop", name)
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

// versions are the first segments of the providers' paths.
var versions = []string{"v1", "v1beta", "v1beta1", "v1alpha", "upload"}

func isVersion(segment string) bool { return slices.Contains(versions, segment) }

// Known reports whether there is an upstream of a name.
func (t *Table) Known(name string) bool {
	_, known := t.upstreams[name]
	return known
}

// Route returns the destination of a request; false, and the format and canonical path
// alone, if there is no upstream for it.
func (t *Table) Route(r *http.Request) (Target, bool) {
	path := r.URL.EscapedPath()
	name, rest := t.upstream(r, path)
	base, known := t.upstreams[name]
	if !known {
		return Target{Format: format(name, path, r.Header), Canonical: clean(path)}, false
	}
	if name == Vertex {
		base = regional(base, rest)
	}
	target := Target{Upstream: name, Format: format(name, path, r.Header), URL: join(base, rest, r.URL.RawQuery)}
	target.read(path, rest)
	return target, true
}

// upstream returns the name of the upstream for a path, and the path there. If several
// providers have the path, the method and the key decide. A version that stands twice is a
// mistake of the client's configuration and leads nowhere.
func (t *Table) upstream(r *http.Request, path string) (name, rest string) {
	first, after, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if _, known := t.upstreams[first]; known && first != Default && strings.HasPrefix(path, "/") {
		return first, "/" + after
	}
	switch {
	case !isVersion(first):
		return Default, path
	case isTwice(first, after):
		return "", path
	case isVertex(after):
		return Vertex, path
	case first != "v1" || isGoogleMethod(path):
		return Gemini, path
	case r.Header.Get("Anthropic-Version") != "" || after == "messages" || strings.HasPrefix(after, "messages/"):
		return Anthropic, path
	}
	if owner := keyOwner(r); owner != "" {
		return owner, path
	}
	return OpenAI, path
}

// format returns the format by the end of the path, so that compatible APIs are read
// whatever their prefix is. Other paths have the format of their provider.
func format(upstream, path string, h http.Header) Format {
	path = strings.TrimRight(unescaped(path), "/")
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Chat
	case strings.HasSuffix(path, "/responses"):
		return Responses
	case strings.HasSuffix(path, "/messages") && !strings.Contains(path, "/threads/"): // OpenAI's Assistants have those
		return Messages
	case strings.HasSuffix(path, ":generateContent"), strings.HasSuffix(path, ":streamGenerateContent"):
		return Generate
	case isVertexMessages(path):
		return Messages
	case upstream == Anthropic, h.Get("Anthropic-Version") != "":
		return AnthropicHTTP
	case upstream == Gemini, upstream == Vertex:
		return GeminiHTTP
	default:
		return HTTP
	}
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
