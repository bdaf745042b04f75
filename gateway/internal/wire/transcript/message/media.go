package message

import (
	"bytes"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// AppendMedia appends a word that stands for media with the digest others, from
// [Digester.Others]. Comparisons of texts treat it as an identifier.
func AppendMedia(dst []byte, others fingerprint.Digest) []byte {
	if others.IsZero() {
		return dst
	}
	if len(dst) > 0 {
		dst = append(dst, '\n')
	}
	dst = append(dst, "attachment_"...)
	for _, b := range others[:8] {
		dst = append(dst, 'a'+b>>4, 'a'+b&15) // no digits, which may be masked
	}
	return dst
}

// other returns the digest of a part other than text: of the bytes, id or URL of a picture,
// and of its other members.
func (d *Digester) other(p *Part) fingerprint.Digest {
	d.Cache.hash(p)
	return d.Cache.Read(otherWay, []Part{{Kind: Other, Value: p.Value, sum: p.sum}}, func() Reading { return Reading{Digest: d.value(withReferences(p.Value))} }).Digest
}

// withReferences returns JSON with each URL in it replaced by its [recognize.Reference].
func withReferences(raw []byte) []byte {
	if bytes.IndexByte(raw, '?') < 0 || !bytes.Contains(raw, []byte(`"http`)) {
		return raw
	}
	var out []byte
	for rest := raw; len(rest) > 0; {
		from := bytes.IndexByte(rest, '"')
		if from < 0 {
			return append(out, rest...)
		}
		to := from + 1 + stringLen(rest[from+1:])
		out = append(out, rest[:from]...)
		if text := rest[from:to]; bytes.HasPrefix(text, []byte(`"http`)) {
			out = append(out, splice.Quote(recognize.Reference(string(jsonwalk.AppendString(nil, text))))...)
		} else {
			out = append(out, text...)
		}
		rest = rest[to:]
	}
	return out
}

// stringLen returns the length of the rest of a JSON string, with its closing quote.
func stringLen(text []byte) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return len(text)
}

// value returns the digest of any JSON. It leaves out members that change while the content
// stays the same: cache marks, signatures and ids. The id counts if there is nothing else but
// a type.
func (d *Digester) value(raw []byte) fingerprint.Digest {
	if len(raw) == 0 || raw[0] != '{' {
		return d.canonical(raw)
	}
	var sum, id fingerprint.Digest
	more := false
	err := jsonwalk.Text(raw, func(w *jsonwalk.Walker) error {
		return w.Object(func(name []byte) error {
			member, err := w.Raw()
			switch {
			case err != nil:
			case string(name) == "id":
				id = d.canonical(member)
			case !volatile(name):
				more = more || string(name) != "type"
				Mix(&sum, fingerprint.Chain(fingerprint.String(name), d.canonical(member)))
			}
			return err
		})
	})
	switch {
	case err != nil:
		return fingerprint.Bytes(raw)
	case more:
		return sum
	default:
		return fingerprint.Chain(sum, id)
	}
}

func volatile(name []byte) bool {
	switch string(name) {
	case "cache_control", "signature", "thought_signature", "thoughtSignature", "status":
		return true
	}
	return false
}

func (d *Digester) canonical(raw []byte) fingerprint.Digest {
	sum, err := d.Hasher.JSON(raw)
	if err != nil {
		return fingerprint.Bytes(raw)
	}
	return sum
}
