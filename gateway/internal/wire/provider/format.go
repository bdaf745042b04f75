package provider

import (
	"io"
	"net/http"
	"strings"
)

// Format describes a wire format: how its requests and answers are read and written, and
// everything else that the gateway and its command line know about it. Each format declares its
// own in its folder.
type Format struct {
	Provider
	// Reads reports whether prompts at a path have this format, judging by the end of the path,
	// which has no escapes and no trailing slash. It is nil for the format of an upstream's
	// other paths, which have no prompts.
	Reads func(path string) bool
	// Path is the usual path of a prompt; "" if there is none.
	Path string
	// Upstreams are those whose format it is.
	Upstreams []*Upstream
	// Operation is the kind of call in traces (gen_ai.operation.name).
	Operation string
	// PutKey puts the upstream's key into a request. Sent are the headers with the
	// client's own key.
	PutKey func(out *http.Request, sent http.Header, key string)
	// Usage are the names by which answers and requests count tokens.
	Usage Usage
	// LastEvents are the events of a stream after which clients may hang up before the answer
	// ends: names of events, or data that is no object.
	LastEvents []string
	// LastMember is a member of a stream's last document that is true there; "" for none.
	LastMember string
	// Framing is the encoding of streams; nil for server-sent events.
	Framing *Framing
	// Signed reports whether the client's signature covers the body of a request with these
	// headers, so that it can't be changed without signing it again; nil for never.
	Signed func(h http.Header) bool
	// Failing says that an answer with status 200 may be an error even if it is not a stream.
	Failing bool
	// Kept describes the answers that the provider keeps for later requests; nil for none.
	Kept *Kept
	// NoSocket is the common name of a format whose clients may ask for a WebSocket at the path
	// of its prompts; "" for the others.
	NoSocket string
}

// Prompt reports whether requests of the format have a prompt.
func (f *Format) Prompt() bool { return f != nil && f.Reads != nil }

// Framing is an encoding of the events of a stream.
type Framing struct {
	ContentType string
	// Events returns a writer that takes such a stream and writes its events to into as
	// server-sent events.
	Events func(into io.Writer) io.Writer
	// Frame writes one event. Some framings have no names.
	Frame func(name string, document []byte) []byte
}

// Kept describes the answers that a provider keeps.
type Kept struct {
	// Fetched returns the id of the answer that a GET of a path fetches; "" for none.
	Fetched func(path string) string
	// Called reads an item of an answer: the call, and the item's id. It returns false if
	// the item is not a call that the client has to answer.
	Called func(item []byte) (call ToolCall, id string, ok bool)
}

// Usage names the members that count tokens. "a.b" is the member b of the object a.
type Usage struct {
	// Objects are the names of an answer's objects that have the next three; none if the
	// answer itself has them.
	Objects []string
	// Input, Cached and Output are the tokens of an answer. Members of one list are added.
	Input, Cached, Output []string
	// MaxOutput and Answers are the bounds that a request sets.
	MaxOutput, Answers []string
	// Prompt are the members of a request that cost input tokens.
	Prompt []string
}

// Upstream is a service that serves paths without its name in front. Formats declare it.
type Upstream struct {
	// Name is the first segment of its paths and its name in --upstream; Title is its common
	// name.
	Name, Title string
	// Address is its usual URL; "" if --upstream has to set it.
	Address string
	// Host returns the host for a path; nil if there is only the host of Address. It is not
	// used if --upstream sets the address.
	Host func(path string) string
	// Versions are the first segments of its paths. If several upstreams have a version, a path
	// goes to the last one in the list of formats that claims it, or else to the first one.
	Versions []string
	// Claims reports whether a path is the upstream's and not another's. The path begins
	// behind the version if the upstream has Versions.
	Claims func(r *http.Request, path string) bool
	// Lacks reports whether a path is one of the upstream's without its version; nil for
	// never.
	Lacks func(path string) bool
	// Costs reports whether a POST to a path that no format reads asks a model for text;
	// nil for never.
	Costs func(path string) bool
	// Other is the format of the paths that no format reads; nil for plain HTTP.
	Other *Format
	// Header is a header that only clients of the upstream's API send; "" for none.
	Header string
	// Recorded are further headers that affect how a request is read.
	Recorded []string
	// Hosts are the suffixes of hosts that accept only the upstream's keys.
	Hosts []string
	// Owns reports whether a key is of the upstream, by its header or its beginning.
	Owns func(header, key string) bool
	// PutKey is Format.PutKey for all formats; nil if that of the format holds.
	PutKey func(out *http.Request, sent http.Header, key string)
	// System is the name of the provider in traces (gen_ai.provider.name); "" if it is
	// Name.
	System string
	// Models is a path that answers without a prompt.
	Models string
	// Variables are the environment variables by which clients find the service.
	Variables []Variable
}

// Variable is an environment variable with the address of an upstream.
type Variable struct {
	Name string
	// Path follows the gateway's address.
	Path string
}

// At reports whether a host accepts only the upstream's keys.
func (u *Upstream) At(host string) bool {
	for _, end := range u.Hosts {
		if strings.HasSuffix(host, end) && (strings.HasPrefix(end, ".") || host == end) {
			return true
		}
	}
	return false
}

// PutBearer puts a key into the Authorization header.
func PutBearer(out *http.Request, _ http.Header, key string) {
	out.Header.Set("Authorization", "Bearer "+key)
}

// PutIn returns a function that puts a key into a header.
func PutIn(header string) func(*http.Request, http.Header, string) {
	return func(out *http.Request, _ http.Header, key string) { out.Header.Set(header, key) }
}
