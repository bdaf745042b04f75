package message

import (
	"bytes"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Digests are the digests of one message.
type Digests struct {
	// Strict covers role, text, other content, tool calls and tool results, without the
	// ids of calls and messages.
	Strict fingerprint.Digest
	// Text covers text and media, including those of results, without the calls.
	Text fingerprint.Digest
}

// Digester computes digests. It reuses its buffers.
type Digester struct {
	Cache  *Cache
	Hasher recognize.Hasher
	// Buffer and Parts are scratch space. Each method that returns a text may overwrite Buffer.
	Buffer []byte
	Parts  []Part

	// Stop reports whether the digests are no longer needed; nil means never.
	Stop func() bool

	args []byte
}

// Stopped reports whether the digests are no longer needed. Loops over a conversation then
// leave out the rest.
func (d *Digester) Stopped() bool { return d.Stop != nil && d.Stop() }

// Message returns the digests of a message. Its texts are joined with one space. The
// parts of each kind keep their order.
func (d *Digester) Message(role Role, parts []Part) Digests {
	f := d.Cache.Read(messageWay+uint64(role), parts, func() Reading {
		sums := d.MessageOnce(role, parts)
		return Reading{Digest: sums.Strict, Class: sums.Text}
	})
	return Digests{Strict: f.Digest, Text: f.Class}
}

// MessageOnce is Message without the cache, for a message that is not read again.
func (d *Digester) MessageOnce(role Role, parts []Part) Digests {
	var fields, others, calls, results fingerprint.Digest
	for i := range parts {
		p := &parts[i]
		switch {
		case p.Inside:
		case p.Kind == Field:
			Mix(&fields, fingerprint.Chain(fingerprint.String(p.Name), d.value(p.Value)))
		case p.Kind == Other:
			others = fingerprint.Chain(others, d.other(p))
		case p.Kind == Call:
			calls = fingerprint.Chain(calls, d.Call(p))
		case p.Kind == Result:
			results = fingerprint.Chain(results, d.result(p, Inside(parts[i+1:])))
		}
	}
	own := d.joined(role, parts, false)
	strict := fingerprint.Chain(fingerprint.String([]byte(roleNames[role])), own)
	for _, part := range [...]fingerprint.Digest{fields, others, calls, results} {
		strict = fingerprint.Chain(strict, part)
	}
	text := own
	if !results.IsZero() {
		text = d.joined(role, parts, true)
	}
	if media := d.Others(parts); !media.IsZero() {
		text = fingerprint.Chain(text, media)
	}
	return Digests{Strict: strict, Text: text}
}

// Mix adds a digest to a sum. The order of digests does not matter.
func Mix(sum *fingerprint.Digest, d fingerprint.Digest) {
	for i := range sum {
		sum[i] ^= d[i]
	}
}

// joined returns the digest of a message's texts. all includes those of results.
func (d *Digester) joined(role Role, parts []Part, all bool) fingerprint.Digest {
	text, some := d.Buffer[:0], false
	for i := range parts {
		if parts[i].Kind != Text || parts[i].Inside && !all {
			continue
		}
		if some {
			text = append(text, ' ')
		}
		some = true
		text = AppendValue(text, parts[i].Value)
	}
	d.Buffer = text
	switch role {
	case System:
		return d.Hasher.System(text)
	case User:
		return d.Hasher.Text(text)
	default: // what a model wrote may be code
		return d.Hasher.Lines(text)
	}
}

// result returns the digest of a result as part of a message.
func (d *Digester) result(p *Part, content []Part) fingerprint.Digest {
	sum := d.Hasher.Result(d.Content(content))
	if others := d.Others(content); !others.IsZero() {
		sum = fingerprint.Chain(sum, others)
	}
	if p.Failed {
		sum = fingerprint.Chain(sum, failedMark)
	}
	return sum
}

var failedMark = fingerprint.String([]byte("failed"))

// Content returns the text of a result, line by line, in the buffer.
func (d *Digester) Content(parts []Part) []byte {
	text, some := d.Buffer[:0], false
	for i := range parts {
		if parts[i].Kind != Text {
			continue
		}
		if some {
			text = append(text, '\n')
		}
		some = true
		text = AppendValue(text, parts[i].Value)
	}
	d.Buffer = text
	return text
}

// AppendValue appends the content of a string, and other JSON as it is.
func AppendValue(dst, value []byte) []byte {
	if len(value) > 0 && value[0] != '"' {
		return append(dst, value...)
	}
	return jsonwalk.AppendString(dst, value)
}

// Others returns the digest of a message's or result's content that is no text.
func (d *Digester) Others(parts []Part) (sum fingerprint.Digest) {
	for i := range parts {
		if parts[i].Kind == Other {
			sum = fingerprint.Chain(sum, d.other(&parts[i]))
		}
	}
	return sum
}

// Call returns the key of a tool call. It does not depend on the formatting of the arguments.
func (d *Digester) Call(p *Part) fingerprint.Digest {
	if p.Known != nil {
		return p.Known.Key
	}
	d.Cache.hash(p)
	return d.Cache.Call(callWay, d.Cache.Sums([]Part{*p}), func() ToolCall {
		return ToolCall{Key: d.Hasher.Call(string(p.Name), d.Arguments(p))}
	}).Key
}

// Arguments returns a call's arguments as JSON. They are valid until the next call.
func (d *Digester) Arguments(p *Part) []byte {
	if len(p.Value) > 0 && p.Value[0] == '"' {
		d.args = jsonwalk.AppendString(d.args[:0], p.Value)
		return d.args
	}
	return p.Value
}

// Human returns the text and the digest of what a human wrote in a user message, without the
// reminders that agents add. human is false if a human wrote nothing. The text is in the buffer.
func (d *Digester) Human(parts []Part) (text []byte, digest fingerprint.Digest, human bool) {
	text, human = d.Words(parts)
	others := d.Others(parts)
	if Has(parts, Result) { // a message with tool results is the agent's
		return text, fingerprint.Digest{}, false
	}
	digest = d.Hasher.Text(text)
	if !others.IsZero() {
		digest, human = fingerprint.Chain(digest, others), true
	}
	return text, digest, human
}

// Words returns the texts of a message without reminders, joined with spaces, in the buffer.
// some is false if there are none.
func (d *Digester) Words(parts []Part) (text []byte, some bool) {
	text = d.Buffer[:0]
	for i := range parts {
		if parts[i].Kind != Text || parts[i].Inside {
			continue
		}
		before := len(text)
		if some {
			text = append(text, ' ')
		}
		start := len(text)
		text = jsonwalk.AppendString(text, parts[i].Value)
		if own := bytes.TrimSpace(text[start:]); len(own) == 0 || IsReminder(own) {
			text = text[:before]
			continue
		}
		some = true
	}
	d.Buffer = text
	return text, some
}

// IsReminder reports whether a text is a note that an agent added to the text of a human or the
// result of a tool.
func IsReminder(text []byte) bool {
	return bytes.HasPrefix(text, []byte("<system-reminder>")) && bytes.HasSuffix(text, []byte("</system-reminder>"))
}
