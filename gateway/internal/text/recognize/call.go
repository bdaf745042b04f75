package recognize

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"

	"github.com/unloop/unloop/schemas/fingerprint"
)

// Results of up to wholeResult bytes are compared as a whole, longer ones by their first
// and last edgeResult bytes and their length, all after cleaning. The numbers are
// LibreFang's.
const (
	wholeResult = 1000
	edgeResult  = 500
)

// Hasher computes the digests of tool calls and texts, and reuses its buffers. The zero
// Hasher is ready for use. It is not safe for concurrent use.
type Hasher struct {
	fingerprint.Canon
	scratch []byte
	// raw is the text that was folded last, and folded the result.
	raw, folded []byte
}

// Call returns the digest of a tool call, [fingerprint.Call], for arguments in JSON.
// Commands are normalized by [AppendCommand]; the description and time limit of a shell's
// command don't count. Arguments that are not JSON are compared byte by byte, without the
// space around them; no arguments are the same as {}.
func Call(tool string, arguments []byte) fingerprint.Digest {
	var h Hasher
	return h.Call(tool, arguments)
}

// Call is the function Call with h's buffers.
func (h *Hasher) Call(tool string, arguments []byte) fingerprint.Digest {
	arguments = bytes.TrimSpace(arguments)
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	arguments = withCommand(arguments)
	args, err := h.JSON(arguments)
	if err != nil {
		args = fingerprint.Bytes(arguments)
	}
	return fingerprint.Call(tool, args)
}

// Volatile says which parts of a result are left out of comparisons. It is safe for
// concurrent use. Nil stands for all kinds and no patterns.
type Volatile struct {
	kinds    Kinds
	patterns []*regexp.Regexp
}

var defaultVolatile = &Volatile{kinds: AllKinds}

// NewVolatile leaves out parts of the given kinds and matches of the patterns (RE2). Each
// pattern costs a copy of the result and a slower pass.
func NewVolatile(kinds Kinds, patterns ...string) (*Volatile, error) {
	v := &Volatile{kinds: kinds}
	var err error
	v.patterns, err = compile(patterns)
	return v, err
}

func compile(patterns []string) ([]*regexp.Regexp, error) {
	out := make([]*regexp.Regexp, 0, len(patterns))
	for _, p := range patterns {
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("compile pattern %q: %w", p, err)
		}
		out = append(out, re)
	}
	return out, nil
}

// IsDefault reports whether v is the same as nil.
func (v *Volatile) IsDefault() bool { return v == nil || v.kinds == AllKinds && len(v.patterns) == 0 }

// WithTimes returns a copy of v that keeps measured times in results.
func (v *Volatile) WithTimes() *Volatile {
	if v == nil {
		v = defaultVolatile
	}
	return &Volatile{kinds: v.kinds &^ (Durations | Runtime), patterns: v.patterns}
}

// each calls emit with the parts of text that stay.
func (v *Volatile) each(text []byte, emit func([]byte)) {
	if v == nil {
		v = defaultVolatile
	}
	for _, re := range v.patterns {
		text = re.ReplaceAll(text, placeholder)
	}
	scanner{kinds: v.kinds}.scan(text, emit)
}

// Result returns the digest of a tool's result without its volatile parts. Two results
// with one digest are the same answer.
func Result(text []byte, v *Volatile) fingerprint.Digest {
	var e edges
	v.each(bytes.TrimSpace(text), e.add)
	b := fingerprint.AppendField(make([]byte, 0, wholeResult+64), []byte(fingerprint.DomainResult))
	if e.total <= wholeResult {
		b = fingerprint.AppendField(b, e.head[:e.total])
	} else {
		b = fingerprint.AppendField(fingerprint.AppendField(b, e.head[:edgeResult]), e.last())
		b = binary.BigEndian.AppendUint64(b, uint64(e.total))
	}
	return fingerprint.Sum(b)
}

// edges collects the beginning and the end of a text that comes in parts.
type edges struct {
	total int
	head  [wholeResult]byte
	tail  [4 * edgeResult]byte // tail[:n] are the newest bytes
	n     int
}

func (e *edges) add(part []byte) {
	if e.total < wholeResult {
		copy(e.head[e.total:], part)
	}
	e.total += len(part)
	part = part[max(0, len(part)-edgeResult):]
	if e.n+len(part) > len(e.tail) {
		e.n = copy(e.tail[:], e.tail[e.n-edgeResult:e.n])
	}
	e.n += copy(e.tail[e.n:], part)
}

// last returns the last edgeResult bytes of a text that has at least as many.
func (e *edges) last() []byte { return e.tail[e.n-edgeResult : e.n] }
