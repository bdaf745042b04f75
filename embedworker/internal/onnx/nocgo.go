//go:build !cgo

package onnx

import "fmt"

// Session is a loaded model; this build cannot make one.
type Session struct{}

// Open returns ErrUnavailable.
func Open(Config) (*Session, error) {
	return nil, fmt.Errorf("%w: this program was built without cgo, which ONNX Runtime needs", ErrUnavailable)
}

// Dim is the length of the vectors.
func (*Session) Dim() int { return 0 }

// Run returns ErrInference.
func (*Session) Run([][]int32) ([][]float32, error) { return nil, ErrInference }

// Close does nothing.
func (*Session) Close() error { return nil }
