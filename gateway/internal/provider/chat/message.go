package chat

import (
	"bytes"

	"github.com/unloop/unloop/gateway/internal/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// messageReader reads single messages and keeps its buffers between them.
type messageReader struct {
	canon fingerprint.Canon
	text  []byte
	args  []byte
}

// message is one message of the history. Its text is valid until the reader
// reads the next one.
type message struct {
	reader *messageReader
	role   string
	text   []byte
	// other is the chain of all that is not text: images, calls, names.
	other fingerprint.Digest
}

// instruction says whether the message is the operator's, not a human's.
func (m *message) instruction() bool { return m.role == "system" || m.role == "developer" }

func (m *message) digests() provider.Message {
	text := m.reader.canon.Text(m.text)
	if m.instruction() {
		text = m.reader.canon.System(m.text)
	}
	role := fingerprint.String([]byte(m.role))
	strict := fingerprint.Chain(fingerprint.Chain(fingerprint.Chain(fingerprint.Digest{}, role), text), m.other)
	return provider.Message{Strict: strict, Text: text}
}

func (r *messageReader) message(raw []byte) (*message, error) {
	m := &message{reader: r, text: r.text[:0]}
	err := jsonwalk.Text(raw, func(w *jsonwalk.Walker) error {
		return w.Object(func(name []byte) error { return m.field(w, name) })
	})
	r.text = m.text
	return m, err
}

func (m *message) field(w *jsonwalk.Walker, name []byte) (err error) {
	switch string(name) {
	case "role":
		m.role, err = w.String()
		return err
	case "content":
		return m.content(w)
	case "tool_calls":
		return m.calls(w)
	case "id", "tool_call_id", "cache_control":
		return w.Skip()
	default:
		return m.extra(w, name)
	}
}

// extra takes a field without a meaning of its own here into the digest,
// unless it is null, which is the same as absent.
func (m *message) extra(w *jsonwalk.Walker, name []byte) error {
	if w.Kind() == 'n' {
		return w.Skip()
	}
	raw, err := w.Raw()
	if err != nil {
		return err
	}
	return m.add(name, raw)
}

// add takes a named value into the digest of what is not text. Two fields of
// one message may come in any order.
func (m *message) add(name, raw []byte) error {
	value, err := m.reader.canon.JSON(raw)
	if err != nil {
		return err
	}
	m.mix(fingerprint.Chain(fingerprint.String(name), value))
	return nil
}

// mix is the same whatever the order.
func (m *message) mix(d fingerprint.Digest) {
	for i := range m.other {
		m.other[i] ^= d[i]
	}
}

func (m *message) content(w *jsonwalk.Walker) (err error) {
	switch w.Kind() {
	case '"':
		m.text, err = w.AppendString(m.text)
		return err
	case '[':
		return m.contentParts(w)
	default:
		return w.Skip()
	}
}

// contentParts reads a content list. Texts are joined with one space; what is
// not text counts by its order and content.
func (m *message) contentParts(w *jsonwalk.Walker) error {
	var others fingerprint.Digest
	texts := 0
	err := w.Array(func() error {
		raw, err := w.Raw()
		if err != nil {
			return err
		}
		text, isText, err := textPart(raw)
		if err != nil {
			return err
		}
		if !isText {
			d, err := m.reader.canon.JSON(raw)
			others = fingerprint.Chain(others, d)
			return err
		}
		if texts > 0 {
			m.text = append(m.text, ' ')
		}
		texts++
		m.text = append(m.text, text...)
		return nil
	})
	if !others.IsZero() {
		m.mix(others)
	}
	return err
}

// textPart reads an element of a content list, if it is text.
func textPart(raw []byte) (text []byte, isText bool, err error) {
	if raw[0] != '{' {
		return nil, false, nil
	}
	kind := ""
	err = jsonwalk.Text(raw, func(w *jsonwalk.Walker) error {
		return w.Object(func(name []byte) (err error) {
			switch string(name) {
			case "type":
				kind, err = w.String()
			case "text":
				isText = w.Kind() == '"'
				text, err = w.AppendString(nil)
			default:
				err = w.Skip()
			}
			return err
		})
	})
	return text, isText && kind == "text", err
}

// calls takes each tool call by name and arguments, in order.
func (m *message) calls(w *jsonwalk.Walker) error {
	if w.Kind() != '[' {
		return w.Skip()
	}
	all := fingerprint.String([]byte("tool_calls"))
	err := w.Array(func() error {
		call, err := m.call(w)
		all = fingerprint.Chain(all, call)
		return err
	})
	m.mix(all)
	return err
}

func (m *message) call(w *jsonwalk.Walker) (fingerprint.Digest, error) {
	var tool string
	args := m.reader.args[:0]
	if w.Kind() != '{' {
		return fingerprint.Digest{}, w.Skip()
	}
	err := w.Object(func(name []byte) error {
		if s := string(name); s != "function" && s != "custom" || w.Kind() != '{' {
			return w.Skip()
		}
		return w.Object(func(name []byte) (err error) {
			switch string(name) {
			case "name":
				tool, err = w.String()
			case "arguments", "input":
				args, err = w.AppendString(args)
			default:
				err = w.Skip()
			}
			return err
		})
	})
	m.reader.args = args
	return m.reader.callDigest(tool, args), err
}

// callDigest is the same however the arguments are spelled.
func (r *messageReader) callDigest(tool string, args []byte) fingerprint.Digest {
	d, err := r.canon.JSON(args)
	if err != nil {
		d = fingerprint.Bytes(bytes.TrimSpace(args))
	}
	return fingerprint.Chain(fingerprint.String([]byte(tool)), d)
}
