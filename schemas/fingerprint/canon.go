package fingerprint

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/zeebo/xxh3"
)

// MaxDepth is how deep objects and arrays may nest. Real requests stay under
// twenty; the limit bounds what a hostile one can make us remember.
const MaxDepth = 512

var (
	// ErrDuplicateKey is returned for an object that has one key twice. What
	// such an object means depends on its reader, so it has no canonical form.
	ErrDuplicateKey = errors.New("duplicate key in JSON object")
	// ErrTooDeep is returned for values that nest deeper than [MaxDepth].
	ErrTooDeep = errors.New("JSON nests too deeply")
	// ErrTrailing is returned by [JSON] when something follows the value.
	ErrTrailing = errors.New("data after the JSON value")
)

// Digest identifies one value within a process and within stored state. The
// zero Digest means "none".
type Digest [16]byte

// IsZero reports whether d is "none".
func (d Digest) IsZero() bool { return d == Digest{} }

// String returns d in lower-case hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Key returns the first eight bytes of d as a number, for compact state and
// for maps that live within one session.
func (d Digest) Key() uint64 { return binary.BigEndian.Uint64(d[:8]) }

// Seeds keep values of different kinds apart: the string "1" is not the number
// 1, and [] is not {}.
const (
	seedString = 0x756e6c6f6f7001 + iota
	seedNumber
	seedLiteral
	seedArray
	seedObject
	seedBytes
	seedChain
	seedRound
	seedHuman
	seedSaid
)

func sum(b []byte, seed uint64) Digest {
	u := xxh3.Hash128Seed(b, seed)
	var d Digest
	binary.BigEndian.PutUint64(d[:8], u.Hi)
	binary.BigEndian.PutUint64(d[8:], u.Lo)
	return d
}

// Bytes returns the digest of raw bytes, for what has no canonical form.
func Bytes(b []byte) Digest { return sum(b, seedBytes) }

// JSON returns the canonical digest of the single JSON value in b: key order,
// white space, escapes in strings and the spelling of numbers do not matter, at
// any depth. It fails on anything that is not exactly one valid JSON value
// without duplicate keys; the caller then hashes the raw bytes.
func JSON(b []byte) (Digest, error) {
	var c Canon
	return c.JSON(b)
}

// Canon computes canonical digests, and keeps its scratch space between calls.
// The zero Canon is ready; it must not be used by two goroutines at once.
type Canon struct {
	src     bytes.Buffer
	dec     jsontext.Decoder
	frames  []frame
	values  []Digest // elements, or keys and values by turns, of all open frames
	members []member
	scratch []byte
	last    bool // of a key that comes twice the last value counts
}

type frame struct {
	object bool
	start  int // index into Canon.values of the frame's first digest
}

type member struct{ key, value Digest }

// JSON is the package's function JSON on c's scratch space.
func (c *Canon) JSON(b []byte) (Digest, error) {
	defer c.release()
	c.src = *bytes.NewBuffer(b)
	c.dec.Reset(&c.src, jsontext.AllowDuplicateNames(true)) // found by us, and cheaper
	d, err := c.value(&c.dec)
	if err != nil {
		return Digest{}, err
	}
	if _, err := c.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return Digest{}, ErrTrailing
	}
	return d, nil
}

// release drops the input, so that a pooled Canon retains no request.
func (c *Canon) release() {
	c.src = bytes.Buffer{}
	c.dec.Reset(&c.src)
}

// value consumes the next whole value from dec, and returns its canonical digest.
func (c *Canon) value(dec *jsontext.Decoder) (Digest, error) {
	c.frames, c.values = c.frames[:0], c.values[:0]
	for {
		d, open, err := c.token(dec)
		if err != nil {
			return Digest{}, fmt.Errorf("hash JSON at byte %d: %w", dec.InputOffset(), err)
		}
		if open {
			continue
		}
		if len(c.frames) == 0 {
			return d, nil
		}
		c.values = append(c.values, d)
	}
}

// token reads one token. It returns a digest when the token is a scalar or
// ends an array or object, and open when it begins one.
func (c *Canon) token(dec *jsontext.Decoder) (d Digest, open bool, err error) {
	switch dec.PeekKind() {
	case '{', '[':
		return Digest{}, true, c.begin(dec)
	case '}', ']':
		if len(c.frames) == 0 {
			return Digest{}, false, io.ErrUnexpectedEOF
		}
		d, err = c.end(dec)
		return d, false, err
	default:
		d, err = c.scalar(dec)
		return d, false, err
	}
}

func (c *Canon) begin(dec *jsontext.Decoder) error {
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if len(c.frames) >= MaxDepth {
		return ErrTooDeep
	}
	c.frames = append(c.frames, frame{object: tok.Kind() == '{', start: len(c.values)})
	return nil
}

func (c *Canon) end(dec *jsontext.Decoder) (Digest, error) {
	if _, err := dec.ReadToken(); err != nil {
		return Digest{}, err
	}
	f := c.frames[len(c.frames)-1]
	c.frames = c.frames[:len(c.frames)-1]
	inside := c.values[f.start:]
	c.values = c.values[:f.start]
	if f.object {
		return c.object(inside)
	}
	c.scratch = c.scratch[:0]
	for i := range inside {
		c.scratch = append(c.scratch, inside[i][:]...)
	}
	return sum(c.scratch, seedArray), nil
}

// object hashes members in the order of their keys' digests, which is as good
// an order as that of the keys and needs no key to be kept.
func (c *Canon) object(inside []Digest) (Digest, error) {
	c.members = c.members[:0]
	for i := 0; i+1 < len(inside); i += 2 {
		c.members = append(c.members, member{inside[i], inside[i+1]})
	}
	if c.last {
		c.dropFormer()
	}
	slices.SortFunc(c.members, func(a, b member) int { return bytes.Compare(a.key[:], b.key[:]) })
	c.scratch = c.scratch[:0]
	for i := range c.members {
		m := &c.members[i]
		if i > 0 && m.key == c.members[i-1].key {
			return Digest{}, ErrDuplicateKey
		}
		c.scratch = append(append(c.scratch, m.key[:]...), m.value[:]...)
	}
	return sum(c.scratch, seedObject), nil
}

// dropFormer drops all but the last member of each key.
func (c *Canon) dropFormer() {
	slices.SortStableFunc(c.members, func(a, b member) int { return bytes.Compare(a.key[:], b.key[:]) })
	kept := c.members[:0]
	for i, m := range c.members {
		if i+1 == len(c.members) || c.members[i+1].key != m.key {
			kept = append(kept, m)
		}
	}
	c.members = kept
}

func (c *Canon) scalar(dec *jsontext.Decoder) (Digest, error) {
	raw, err := dec.ReadValue()
	if err != nil {
		return Digest{}, err
	}
	switch raw.Kind() {
	case '"':
		return c.text(raw)
	case '0':
		c.scratch = appendNumber(c.scratch[:0], raw)
		return sum(c.scratch, seedNumber), nil
	default:
		return sum(raw, seedLiteral), nil
	}
}

// text hashes a string, in place if it has no escapes.
func (c *Canon) text(raw jsontext.Value) (Digest, error) {
	body := raw[1 : len(raw)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return sum(body, seedString), nil
	}
	var plain bool
	if c.scratch, plain = appendUnescaped(c.scratch[:0], body); !plain {
		var err error
		if c.scratch, err = jsontext.AppendUnquote(c.scratch[:0], raw); err != nil {
			return Digest{}, err
		}
	}
	return sum(c.scratch, seedString), nil
}

// unescaped maps the letter of a two-character escape to its character.
var unescaped = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// appendUnescaped appends the content of a valid JSON string. It handles only two-character
// escapes and returns false at a \u.
func appendUnescaped(dst, body []byte) (out []byte, plain bool) {
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			return append(dst, body...), true
		}
		ch := unescaped[body[i+1]]
		if ch == 0 {
			return dst, false
		}
		dst = append(append(dst, body[:i]...), ch)
		body = body[i+2:]
	}
}

// String returns the digest that [JSON] gives a JSON string with this content,
// for parsers that have already unquoted it.
func String(s []byte) Digest { return sum(s, seedString) }
