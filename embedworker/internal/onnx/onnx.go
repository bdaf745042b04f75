// Package onnx runs BERT encoders on ONNX Runtime: rows of token ids in, one
// vector a row out. It alone calls C; a program that is built without cgo has
// the same functions, which say so.
//
// It knows nothing of texts, tokens' meaning, batches or queues.
package onnx

import "errors"

// Errors of Open and Run; they come wrapped.
var (
	ErrUnavailable = errors.New("ONNX model is not available")
	ErrInference   = errors.New("inference did not work")
)

// Config says what to load.
type Config struct {
	Runtime string // ONNX Runtime's shared library, 1.27 or later
	Model   string // the .onnx file
	Threads int    // threads inside a run
	Pad     int32  // id that rows are filled up with
}
