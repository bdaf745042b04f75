package logs

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// object holds the members of a JSON object, undecoded.
type object map[string]jsontext.Value

// readEntry reads one entry of any kind.
func readEntry(v []byte, out *sink) {
	switch jsontext.Value(v).Kind() {
	case '{':
	case '[':
		readList(v, out)
		return
	default:
		if jsontext.Value(v).IsValid() {
			out.fail(ErrUnknown)
		} else {
			out.fail(ErrSyntax)
		}
		return
	}
	if isExport(v) {
		if err := readExport(newDecoder(v), out, func() int { return out.line }); err != nil {
			out.fail(syntax(err))
		}
		return
	}
	o, err := readObject(v)
	if err != nil {
		out.fail(syntax(err))
		return
	}
	o.read(v, out)
}

func (o object) read(whole jsontext.Value, out *sink) {
	switch {
	case o.has("unloop"):
		readRecord(o, out)
	case o.has("attributes") && (o.has("traceId") || o.has("trace_id") || o.has("context")):
		readSpan(whole, nil, out)
	case o.has("request_body") && (o.has("request_created_at") || o.has("request_id")):
		readHelicone(whole, out)
	case o.has("traceId") && o.has("startTime") || o.has("observations"):
		readLangfuse(whole, out)
	case o.has("call_type") || o.has("startTime") && (o.has("messages") || o.has("proxy_server_request")) || o.has("proxy_server_request"):
		readLiteLLM(whole, out)
	case o.has("messages"):
		readSession(o, whole, out)
	default:
		out.fail(fmt.Errorf("%w: an object with %s", ErrUnknown, o.names()))
	}
}

func (o object) has(name string) bool { return len(o[name]) > 0 }

// text returns the text of a member, "" if it has none.
func (o object) text(name string) (s string) {
	_ = json.Unmarshal(o[name], &s)
	return s
}

// names returns the names of the first few members.
func (o object) names() string {
	const most = 6
	names := slices.Sorted(maps.Keys(o))
	if len(names) == 0 {
		return "no members"
	}
	if len(names) > most {
		names = append(names[:most], "…")
	}
	return strings.Join(names, ", ")
}

// readObject splits an object into its members. They are slices of v: bodies are
// large, and copying them would take a third of the time.
func readObject(v []byte) (object, error) {
	dec := newDecoder(v)
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil, cmp.Or(err, ErrUnknown)
	}
	o := object{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		end := int(dec.InputOffset())
		o[key] = v[end-len(value) : end]
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(v[dec.InputOffset():])) > 0 {
		return nil, fmt.Errorf("%w: something follows the object", ErrSyntax)
	}
	return o, nil
}

// readList reads an array on one line.
func readList(v []byte, out *sink) {
	var list []jsontext.Value
	if err := json.Unmarshal(v, &list, lenient); err != nil {
		out.fail(syntax(err))
		return
	}
	var s messages
	for _, e := range list {
		if role := roleOf(e); len(s.list) > 0 || role != "" {
			s.add(e, role)
		} else if readEntry(e, out); out.done {
			return
		}
	}
	s.expand(out)
}

// lenient reads JSON as leniently as the logs of others need.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

func newDecoder(v []byte) *jsontext.Decoder { return jsontext.NewDecoder(bytes.NewBuffer(v), lenient) }
