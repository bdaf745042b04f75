// Package scrub pseudonymizes a request: it replaces users, sessions, conversations, and
// what a provider signed or encrypted by hashes. Equal values have equal hashes, so that a
// replay finds the same repetitions.
//
// It knows the members that the wire formats use for these, but neither headers nor where
// the result is stored.
package scrub

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/splice"
)

// Members of a body that are replaced.
var (
	// namingTop are names of users and conversations at the top of a body.
	namingTop = []string{"user", "safety_identifier", "prompt_cache_key", "previous_response_id", "conversation"}
	// namingMetadata are such names at the top and in metadata.
	namingMetadata = []string{"user_id", "session_id", "conversation_id", "thread_id"}
	// sealed are signatures of thinking, and encrypted thinking.
	sealed = []string{"signature", "thoughtSignature", "thought_signature", "encrypted_content", "reasoning_opaque"}
	// sealedBlocks are the types of objects with a sealed member "data".
	sealedBlocks = []string{"redacted_thinking", "reasoning.encrypted"}
	// spoken hold what agents, tools and humans wrote. Nothing in them is replaced.
	spoken = []string{"arguments", "args", "response", "parameters", "parametersJsonSchema", "input_schema", "schema"}
)

// keptID matches the ids of stored answers and conversations in a path.
var keptID = regexp.MustCompile(`/(resp|conv|thread)_[^/?]+`)

// Path returns a path in which the ids of stored answers and conversations are
// hashes.
func Path(path string, hash func(string) string) string {
	return keptID.ReplaceAllStringFunc(path, func(id string) string {
		kind, _, _ := strings.Cut(id, "_")
		return kind + "_" + hash(id[1:])
	})
}

// Body returns a JSON body with hashes in place of names and sealed values. Each hash is as
// long as the value that it replaces, because costs follow from sizes. A body that jsonwalk
// refuses is returned unchanged.
func Body(body []byte, hash func(string) string) []byte {
	var s scrubber
	if err := jsonwalk.Text(body, func(w *jsonwalk.Walker) error { return s.value(w, s.top) }); err != nil {
		return body
	}
	slices.SortFunc(s.places, func(a, b splice.Place) int { return cmp.Compare(a.From, b.From) })
	out := make([]byte, 0, len(body))
	done := 0
	for _, p := range s.places {
		value := jsonwalk.AppendString(nil, body[p.From:p.To])
		out = append(out, body[done:p.From]...)
		out = append(out, splice.Quote(replacement(string(value), p.To-p.From-2, hash))...)
		done = p.To
	}
	return append(out, body[done:]...)
}

// replacement returns the hash of a value, cut or padded to the value's length.
func replacement(value string, length int, hash func(string) string) string {
	if value == "" {
		return ""
	}
	sum := hash(value)
	return sum[:min(len(sum), max(length, 16))] + strings.Repeat(".", max(0, length-len(sum)))
}

// scrubber collects the places of the values to replace.
type scrubber struct{ places []splice.Place }

// value walks arrays and objects. It calls member for each member of an object.
func (s *scrubber) value(w *jsonwalk.Walker, member func(w *jsonwalk.Walker, name string) error) error {
	switch w.Kind() {
	case '{':
		return s.object(w, member)
	case '[':
		return w.Array(func() error { return s.value(w, member) })
	default:
		return w.Skip()
	}
}

// object walks an object, and takes its member "data" if its type is one of sealedBlocks.
func (s *scrubber) object(w *jsonwalk.Walker, member func(w *jsonwalk.Walker, name string) error) error {
	var kind string
	var data splice.Place
	err := w.Object(func(name []byte) (err error) {
		switch {
		case string(name) == "type" && w.Kind() == '"':
			kind, err = w.String()
		case string(name) == "data" && w.Kind() == '"':
			data, err = splice.Value(w)
		default:
			err = member(w, string(name))
		}
		return err
	})
	if data.Found() && slices.Contains(sealedBlocks, kind) {
		s.places = append(s.places, data)
	}
	return err
}

// take takes a string, or the strings with these names in an object or array.
func (s *scrubber) take(w *jsonwalk.Walker, names ...string) error {
	if w.Kind() != '"' {
		return s.value(w, func(w *jsonwalk.Walker, name string) error {
			if slices.Contains(names, name) && w.Kind() == '"' {
				return s.take(w)
			}
			return w.Skip()
		})
	}
	place, err := splice.Value(w)
	s.places = append(s.places, place)
	return err
}

// top handles a member at the top of the body.
func (s *scrubber) top(w *jsonwalk.Walker, name string) error {
	switch {
	case slices.Contains(namingTop, name):
		return s.take(w, "id")
	case slices.Contains(namingMetadata, name):
		return s.take(w)
	case strings.HasSuffix(name, "metadata") && w.Kind() == '{':
		return s.take(w, namingMetadata...)
	case name == "input":
		return s.value(w, s.inside)
	default:
		return s.inside(w, name)
	}
}

// inside handles a member below the top, where "input" holds the arguments of a call.
func (s *scrubber) inside(w *jsonwalk.Walker, name string) error {
	switch {
	case slices.Contains(sealed, name) && w.Kind() == '"':
		return s.take(w)
	case name == "input", slices.Contains(spoken, name):
		return w.Skip()
	default:
		return s.value(w, s.inside)
	}
}
