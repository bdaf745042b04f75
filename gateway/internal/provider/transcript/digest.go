package transcript

import (
	"bytes"

	"github.com/unloop/unloop/gateway/internal/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/recognize"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// digester hashes messages and keeps its buffers between them.
type digester struct {
	cache *Cache
	canon recognize.Hasher
	text  []byte
	args  []byte
}

// message returns the digests of a whole message. Its texts are joined with one
// space. Kinds of content keep their order, each for itself.
func (d *digester) message(role Role, parts []Part) Message {
	var fields, others, calls, results fingerprint.Digest
	for i := range parts {
		p := &parts[i]
		switch {
		case p.Inside:
		case p.Kind == Field:
			mix(&fields, fingerprint.Chain(fingerprint.String(p.Name), d.value(p.Value)))
		case p.Kind == Other:
			others = fingerprint.Chain(others, d.value(p.Value))
		case p.Kind == Call:
			calls = fingerprint.Chain(calls, d.call(p))
		case p.Kind == Result:
			results = fingerprint.Chain(results, d.result(p, inside(parts[i+1:])))
		}
	}
	own := d.own(role, parts)
	strict := fingerprint.Chain(fingerprint.String([]byte(roleNames[role])), own)
	for _, part := range [...]fingerprint.Digest{fields, others, calls, results} {
		strict = fingerprint.Chain(strict, part)
	}
	text := own
	if !results.IsZero() {
		text = d.joined(role, parts, true)
	}
	return Message{Strict: strict, Text: text}
}

// systemWay is how a system prompt is read, as the cache knows it. Results are read
// in as many ways as there are rules.
const systemWay = 0

// own is the digest of a message's own texts.
func (d *digester) own(role Role, parts []Part) fingerprint.Digest {
	if role != System {
		return d.joined(role, parts, false)
	}
	key, ok := d.cache.key(systemWay, parts)
	if ok {
		if f, known := d.cache.get(key); known {
			return f.digest
		}
	}
	digest := d.joined(role, parts, false)
	if ok {
		d.cache.set(key, finding{digest: digest})
	}
	return digest
}

// joined is the digest of a message's texts.
func (d *digester) joined(role Role, parts []Part, all bool) fingerprint.Digest {
	text, some := d.text[:0], false
	for i := range parts {
		if parts[i].Kind != Text || parts[i].Inside && !all {
			continue
		}
		if some {
			text = append(text, ' ')
		}
		some = true
		text = appendValue(text, parts[i].Value)
	}
	d.text = text
	switch role {
	case System:
		return d.canon.System(text)
	case User:
		return d.canon.Text(text)
	default: // what a model wrote may be code
		return d.canon.Lines(text)
	}
}

// result is the digest of a result as part of a message.
func (d *digester) result(p *Part, content []Part) fingerprint.Digest {
	sum := d.canon.Result(d.content(content))
	if others := d.others(content); !others.IsZero() {
		sum = fingerprint.Chain(sum, others)
	}
	if p.Failed {
		sum = fingerprint.Chain(sum, failedMark)
	}
	return sum
}

var failedMark = fingerprint.String([]byte("failed"))

// inside is the content of the result that stands before rest.
func inside(rest []Part) []Part {
	n := 0
	for n < len(rest) && rest[n].Inside {
		n++
	}
	return rest[:n]
}

// content is the text of a result, line by line; valid until the next call.
func (d *digester) content(parts []Part) []byte {
	text, some := d.text[:0], false
	for i := range parts {
		if parts[i].Kind != Text {
			continue
		}
		if some {
			text = append(text, '\n')
		}
		some = true
		text = appendValue(text, parts[i].Value)
	}
	d.text = text
	return text
}

// appendValue appends a string's content, and other JSON as it is.
func appendValue(dst, value []byte) []byte {
	if len(value) > 0 && value[0] != '"' {
		return append(dst, value...)
	}
	return jsonwalk.AppendString(dst, value)
}

func (d *digester) others(parts []Part) (sum fingerprint.Digest) {
	for i := range parts {
		if parts[i].Kind == Other {
			sum = fingerprint.Chain(sum, d.value(parts[i].Value))
		}
	}
	return sum
}

// call is the digest of a tool call, however its arguments are written.
func (d *digester) call(p *Part) fingerprint.Digest {
	if p.Known != nil {
		return p.Known.Key
	}
	return d.canon.Call(string(p.Name), d.arguments(p))
}

// arguments are a call's arguments as JSON text; valid until the next call.
func (d *digester) arguments(p *Part) []byte {
	if len(p.Value) > 0 && p.Value[0] == '"' {
		d.args = jsonwalk.AppendString(d.args[:0], p.Value)
		return d.args
	}
	return p.Value
}

// value is the digest of any JSON, without what changes though the content does
// not: ids, cache marks and signatures.
func (d *digester) value(raw []byte) fingerprint.Digest {
	if len(raw) == 0 || raw[0] != '{' {
		return d.canonical(raw)
	}
	var sum fingerprint.Digest
	err := jsonwalk.Text(raw, func(w *jsonwalk.Walker) error {
		return w.Object(func(name []byte) error {
			member, err := w.Raw()
			if err == nil && !volatile(name) {
				mix(&sum, fingerprint.Chain(fingerprint.String(name), d.canonical(member)))
			}
			return err
		})
	})
	if err != nil {
		return fingerprint.Bytes(raw)
	}
	return sum
}

func volatile(name []byte) bool {
	switch string(name) {
	case "id", "cache_control", "signature", "thought_signature", "thoughtSignature", "status":
		return true
	}
	return false
}

func (d *digester) canonical(raw []byte) fingerprint.Digest {
	sum, err := d.canon.JSON(raw)
	if err != nil {
		return fingerprint.Bytes(raw)
	}
	return sum
}

// human returns the digest of what a human said in a user message, and whether a
// human said something: reminders that agents add are left out, and a message that
// carries tool results is the agent's.
func (d *digester) human(parts []Part) (fingerprint.Digest, bool) {
	text, said := d.heard(d.text[:0], parts)
	d.text = text
	others := d.others(parts)
	for i := range parts {
		if parts[i].Kind == Result {
			return fingerprint.Digest{}, false
		}
	}
	sum := d.canon.Text(text)
	if !others.IsZero() {
		sum = fingerprint.Chain(sum, others)
	}
	return sum, said || !others.IsZero()
}

// heard appends the texts of a message that are no reminders, with one space
// between them, and says whether there was one.
func (d *digester) heard(dst []byte, parts []Part) (text []byte, said bool) {
	for i := range parts {
		if parts[i].Kind != Text || parts[i].Inside {
			continue
		}
		before := len(dst)
		if said {
			dst = append(dst, ' ')
		}
		start := len(dst)
		dst = jsonwalk.AppendString(dst, parts[i].Value)
		if own := bytes.TrimSpace(dst[start:]); len(own) == 0 || isReminder(own) {
			dst = dst[:before]
			continue
		}
		said = true
	}
	return dst, said
}

// isReminder reports whether a text is a note that an agent put beside what a
// human or a tool said.
func isReminder(text []byte) bool {
	return bytes.HasPrefix(text, []byte("<system-reminder>")) && bytes.HasSuffix(text, []byte("</system-reminder>"))
}
