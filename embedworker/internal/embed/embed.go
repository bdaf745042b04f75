// Package embed turns texts into unit vectors whose cosine is the similarity of the texts: with
// a BERT model on ONNX Runtime, or with hashed words.
//
// It knows nothing of loops, scopes, stores or wire formats.
package embed

import (
	"context"
	"errors"
	"math"

	"github.com/unloop/unloop/embedworker/internal/onnx"
)

// Embedder makes vectors. It is safe for concurrent use.
type Embedder interface {
	// Name identifies the embedder: vectors of different names can't be compared. It is short
	// enough for a label.
	Name() string
	// Dim is the length of every vector.
	Dim() int
	// Within returns the similarity above which two exchanges of one conversation are the
	// same, if that is lower than the default threshold of policies; else 0.
	Within() float64
	// Embed returns a vector of length 1 for each text. Its errors are ErrEmpty for a text
	// without words, ErrBusy if too many texts wait, ErrInference if the model fails, or the
	// context's.
	Embed(ctx context.Context, texts ...string) ([][]float32, error)
	// Close frees the embedder after the calls in flight.
	Close() error
}

// Errors of Embed and Open; they come wrapped.
var (
	ErrEmpty       = errors.New("text is empty")
	ErrBusy        = errors.New("embedder is busy")
	ErrClosed      = errors.New("embedder is closed")
	ErrInference   = onnx.ErrInference
	ErrUnavailable = errors.New("embedder is not available")
)

// Cosine returns the cosine of two unit vectors of the same length.
func Cosine(a, b []float32) float64 {
	var sum0, sum1, sum2, sum3 float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		sum0 += a[i] * b[i]
		sum1 += a[i+1] * b[i+1]
		sum2 += a[i+2] * b[i+2]
		sum3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		sum0 += a[i] * b[i]
	}
	return float64(sum0) + float64(sum1) + float64(sum2) + float64(sum3)
}

// normalize scales v to length 1. It returns false if v is zero or not finite.
func normalize(v []float32) (ok bool) {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return false
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= scale
	}
	return true
}
