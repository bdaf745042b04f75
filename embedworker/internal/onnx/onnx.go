// Package onnx runs BERT encoders on ONNX Runtime, which turn rows of token ids into vectors. It
// is the only package that calls C; without cgo, its functions return an error.
//
// It knows nothing of texts, tokenizers or queues.
package onnx

import "errors"

// Errors of Open and Run; they come wrapped.
var (
	ErrUnavailable = errors.New("ONNX model is not available")
	ErrInference   = errors.New("inference did not work")
)

// Config configures a session.
type Config struct {
	Runtime string // ONNX Runtime's shared library, 1.27 or later
	Model   string // the .onnx file
	Threads int    // threads of one run
	Pad     int32  // id of padding
}
