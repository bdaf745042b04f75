package recognize

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"

	"github.com/unloop/unloop/schemas/fingerprint"
)

// Results are compared whole up to wholeResult bytes, and beyond that by their
// first and last edgeResult bytes and their length, all after cleaning. The
// numbers are LibreFang's.
const (
	wholeResult = 1000
	edgeResult  = 500
)

// Hasher computes the digests of tool calls and texts, and keeps its scratch space
// between calls. The zero Hasher is ready; it must not be used by two goroutines at
// once.
type Hasher struct {
	fingerprint.Canon
	scratch []byte
	// raw is the text that was folded last, and folded what became of it.
	raw, folded []byte
}

// Call returns the digest of a tool call, [fingerprint.Call], for arguments given as
// JSON text. Commands count as [AppendCommand] writes them, without the description
// and the time limit beside a shell's command. Arguments that are not JSON count by
// their bytes, trimmed; none at all is the same as {}.
func Call(tool string, arguments []byte) fingerprint.Digest {
	var h Hasher
	return h.Call(tool, arguments)
}

// Call is the package's function Call on h's scratch space.
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

// Volatile says which parts of a result are left out when it is compared. It is
// safe for concurrent use.
type Volatile struct {
	kinds    Kinds
	patterns []*regexp.Regexp
}

var defaultVolatile = &Volatile{kinds: AllKinds}

// NewVolatile returns the given kinds and, beyond them, what the patterns (RE2)
// match. Patterns cost a copy of the result and a slower pass for each.
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

// IsDefault reports whether all kinds and no patterns are left out, as nil does.
func (v *Volatile) IsDefault() bool { return v == nil || v.kinds == AllKinds && len(v.patterns) == 0 }

// WithTimes returns the recognition of the same parts, without measured times.
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

// Result returns the digest of what a tool answered, without its volatile parts;
// nil stands for all kinds and no patterns. Two results with one digest are the
// same answer. Beyond 1 000 bytes (cleaned) only the first and last 500 and the
// length are compared.
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

// edges keeps the beginning and the end of a text that comes in parts.
type edges struct {
	total int
	head  [wholeResult]byte
	tail  [4 * edgeResult]byte // the newest bytes are tail[:n]
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
