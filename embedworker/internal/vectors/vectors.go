// Package vectors remembers the last embeddings of each scope and compares a
// new one with them. One interface stands before JetStream KV and Redis
// vector sets.
//
// It knows vectors and when they age out, by the clock it is given; it knows
// nothing of texts' meaning, thresholds or verdicts. Texts pass through it
// only where the caller hands one over to be kept.
package vectors

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/embedworker/internal/compare"
)

// Store keeps histories. It is safe for concurrent use, and shared by all
// workers that reach the same server.
type Store interface {
	// Kind names the store for logs and metrics.
	Kind() string
	// Compare compares a subject with what its scope remembers, newest first,
	// and remembers it unless asked not to. Of two calls at the same moment at
	// least one sees the other. Errors are ErrInvalid or ErrUnavailable, or the
	// context's.
	Compare(ctx context.Context, r Request) (History, error)
	// Expect notes that a streak of findings is about to be written for the scope and the
	// shape of a subject, and then kept for the request's TTL. It has the errors of
	// Compare.
	Expect(ctx context.Context, r Request) error
	// Ping reports whether the store can be reached.
	Ping(ctx context.Context) error
	// NeedsVectors reports whether the store compares and remembers only subjects with
	// vectors.
	NeedsVectors() bool
	Close() error
}

// Errors of Compare; they come wrapped.
var (
	ErrInvalid     = errors.New("request cannot be compared")
	ErrUnavailable = errors.New("vector store is not available")
)

// Scope is whose history it is. Any text is fit for a key.
type Scope struct {
	Kind, Key string
	// Embedder made the vectors: those of two embedders never meet.
	Embedder string
}

// Request is one subject with the parameters of its comparison.
type Request struct {
	Scope   Scope
	Subject compare.Subject
	// ID marks what belongs together: entries of the same ID do not meet, and
	// the newer replaces the older. "" belongs to nothing.
	ID string
	// Replaces is how the ID begins of an entry that stands for this very one:
	// the newest such entry is neither met nor kept. "" for none.
	Replaces string
	Text     string        // kept beside the vector; "" for none
	Keep     int           // how many the scope remembers, 1 to MaxKeep
	TTL      time.Duration // how long this one is remembered
	Peek     bool          // compare without remembering
	// SameDetails says that the similarity of entries with other details is of no use.
	SameDetails bool
	// Dim is the number of dimensions that the vectors of a subject without any would have.
	Dim int
	// Suffices reports whether a subject without vectors may be remembered like that beside
	// the entries of its scope. If not, it is only compared. nil means that it may.
	Suffices func([]Found) bool
	// Earlier are the vectors of entries that may be remembered without them, by digest.
	Earlier map[uint64][][]float32
}

// History is what a scope remembers.
type History struct {
	// Past are its entries, newest first, compared with the request.
	Past []Found
	// Replaced says that there was an entry that the request replaces.
	Replaced bool
	Streak   Streak
}

// Streak says whether a scope may have a streak of findings.
type Streak uint8

// What is known of a streak.
const (
	// StreakUnknown is the answer of a store that keeps no note of it.
	StreakUnknown Streak = iota
	// StreakNone says that none was expected before the subject was remembered.
	StreakNone
	StreakPossible
)

// Found is one remembered entry.
type Found struct {
	compare.Past
	ID, Text string
	Age      time.Duration
	// Unembedded says that it is remembered without vectors.
	Unembedded bool
}

// Limits of a request.
const (
	MaxKeep = 100
	maxDim  = 16384
)

// check refuses what no store could compare.
func (r Request) check() error {
	switch {
	case r.Scope.Key == "" || r.Scope.Kind == "":
		return fmt.Errorf("%w: no scope", ErrInvalid)
	case r.Keep < 1 || r.Keep > MaxKeep:
		return fmt.Errorf("%w: a history of %d", ErrInvalid, r.Keep)
	case r.TTL <= 0:
		return fmt.Errorf("%w: remembered for %s", ErrInvalid, r.TTL)
	}
	dim := r.Dim
	for _, h := range r.Subject.Halves {
		if len(h) == 0 {
			continue
		}
		if dim != 0 && len(h) != dim || len(h) > maxDim {
			return fmt.Errorf("%w: vectors of %d and %d dimensions", ErrInvalid, dim, len(h))
		}
		dim = len(h)
	}
	if dim == 0 {
		return fmt.Errorf("%w: no vector", ErrInvalid)
	}
	return nil
}

// replaces reports whether an entry of that ID is one that the request replaces.
func (r Request) replaces(id string) bool {
	return r.Replaces != "" && strings.HasPrefix(id, r.Replaces)
}

// dim is the length of the subject's vectors.
func (r Request) dim() int {
	dim := r.Dim
	for _, h := range r.Subject.Halves {
		dim = max(dim, len(h))
	}
	return dim
}

// space identifies the vectors that may be compared, whatever their scope:
// embedder, single texts or exchanges, dimensions.
func (r Request) space() string {
	return fmt.Sprintf("%s/%d/%d", r.Scope.Embedder, len(r.Subject.Halves), r.dim())
}

// scopeHash stands for scope and space, so that no id can reach another scope
// and none is stored: 16 bytes.
func (r Request) scopeHash() []byte {
	h := sha256.New()
	for _, field := range []string{"unloop vectors 1", r.space(), r.Scope.Kind, r.Scope.Key} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(field)))
		h.Write(length[:])
		h.Write([]byte(field))
	}
	return h.Sum(nil)[:16]
}

// appendVector adds a vector as little-endian float32.
func appendVector(b []byte, v []float32) []byte {
	b = slices.Grow(b, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// vector reads what appendVector wrote; a broken rest is left out.
func vector(b []byte) []float32 {
	if len(b) < 4 {
		return nil
	}
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

// joined is the subject as one vector, for stores that hold no pairs: its
// halves one after the other, an empty one as zeros.
func joined(r Request) []byte {
	dim := r.dim()
	b := make([]byte, 0, 4*dim*len(r.Subject.Halves))
	for _, h := range r.Subject.Halves {
		if len(h) == 0 {
			h = make([]float32, dim)
		}
		b = appendVector(b, h)
	}
	return b
}

// halves takes a joined vector apart again, each half at length 1 whatever the
// store made of the whole.
func halves(b []byte, n int) []compare.Plain {
	all := vector(b)
	out := make([]compare.Plain, n)
	for i := range out {
		h := all[i*len(all)/n : (i+1)*len(all)/n]
		var sum float64
		for _, x := range h {
			sum += float64(x) * float64(x)
		}
		if sum < 1e-12 {
			continue
		}
		for j := range h {
			h[j] = float32(float64(h[j]) / math.Sqrt(sum))
		}
		out[i] = h
	}
	return out
}
