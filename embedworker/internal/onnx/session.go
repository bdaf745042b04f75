//go:build cgo

package onnx

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
)

// environment is the ONNX Runtime of the process. It is never unloaded, which is not safe for a
// library with threads of its own.
var environment struct {
	sync.Mutex
	path string
}

// loadRuntime loads the library, unless it is loaded already.
func loadRuntime(path string) error {
	environment.Lock()
	defer environment.Unlock()
	switch {
	case environment.path == path && path != "":
		return nil
	case environment.path != "":
		return fmt.Errorf("%w: this process already runs ONNX Runtime from %s", ErrUnavailable, environment.path)
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("%w: ONNX Runtime: %w", ErrUnavailable, err)
	}
	ort.SetSharedLibraryPath(path)
	if err := ort.InitializeEnvironment(ort.WithLogLevelError()); err != nil {
		return fmt.Errorf("%w: ONNX Runtime 1.27 or later is needed, %s: %w", ErrUnavailable, path, err)
	}
	environment.path = path
	return nil
}

// Session is a loaded model. Run is safe for concurrent use.
type Session struct {
	ort     *ort.DynamicAdvancedSession
	inputs  []string
	dim     int
	pooled  bool // the model pools the tokens' vectors itself
	pad     int32
	buffers sync.Pool
}

// Open loads a model and, if necessary, the runtime. The error is ErrUnavailable.
func Open(c Config) (*Session, error) {
	if err := loadRuntime(c.Runtime); err != nil {
		return nil, err
	}
	s, err := newSession(c)
	if err != nil {
		return nil, fmt.Errorf("%w: load %s: %w", ErrUnavailable, c.Model, err)
	}
	return s, nil
}

// Dim is the length of the vectors.
func (s *Session) Dim() int { return s.dim }

// Close frees the model. No Run may be in flight.
func (s *Session) Close() error { return s.ort.Destroy() }

func newSession(c Config) (*Session, error) {
	inputs, outputs, err := ports(c.Model)
	if err != nil {
		return nil, err
	}
	s := &Session{pad: c.Pad}
	if s.inputs, err = chooseInputs(inputs); err != nil {
		return nil, err
	}
	output, err := chooseOutput(outputs)
	if err != nil {
		return nil, err
	}
	s.pooled = len(output.Dimensions) == 2
	s.dim = int(output.Dimensions[len(output.Dimensions)-1])
	options, err := sessionOptions(c.Threads)
	if err != nil {
		return nil, err
	}
	defer func() { _ = options.Destroy() }()
	s.ort, err = ort.NewDynamicAdvancedSession(c.Model, s.inputs, []string{output.Name}, options)
	return s, err
}

// ports returns a model's inputs and outputs. It does not optimize the model.
func ports(path string) (inputs, outputs []ort.InputOutputInfo, err error) {
	options, err := ort.NewSessionOptions()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = options.Destroy() }()
	if err := options.SetGraphOptimizationLevel(ort.GraphOptimizationLevelDisableAll); err != nil {
		return nil, nil, err
	}
	return ort.GetInputOutputInfoWithOptions(path, options)
}

func sessionOptions(threads int) (*ort.SessionOptions, error) {
	options, err := ort.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		options.SetIntraOpNumThreads(threads),
		options.SetInterOpNumThreads(1),
		options.SetGraphOptimizationLevel(ort.GraphOptimizationLevelEnableAll),
		// Idle threads sleep, because the worker shares its machine.
		options.AddSessionConfigEntry("session.intra_op.allow_spinning", "0"),
	)
	if err != nil {
		return nil, errors.Join(err, options.Destroy())
	}
	return options, nil
}

// bertInputs are the inputs of a BERT. Models without segments lack the last one.
var bertInputs = []string{"input_ids", "attention_mask", "token_type_ids"}

func chooseInputs(inputs []ort.InputOutputInfo) ([]string, error) {
	names := make([]string, len(inputs))
	for i, in := range inputs {
		if !slices.Contains(bertInputs, in.Name) || in.DataType != ort.TensorElementDataTypeInt64 {
			return nil, fmt.Errorf("input %s of type %s is not a BERT's", in.Name, in.DataType)
		}
		names[i] = in.Name
	}
	if !slices.Contains(names, "input_ids") {
		return nil, errors.New("model has no input input_ids")
	}
	return names, nil
}

// chooseOutput prefers the tokens' vectors to those that the model pooled, because models pool
// differently.
func chooseOutput(outputs []ort.InputOutputInfo) (chosen ort.InputOutputInfo, err error) {
	for _, dims := range []int{3, 2} {
		for _, out := range outputs {
			if len(out.Dimensions) == dims && out.DataType == ort.TensorElementDataTypeFloat && out.Dimensions[dims-1] > 0 {
				return out, nil
			}
		}
	}
	var names []string
	for _, out := range outputs {
		names = append(names, out.String())
	}
	return chosen, fmt.Errorf("no output has vectors: %s", strings.Join(names, ", "))
}

// Run pads rows of token ids to the same length, infers, and returns for each row the sum of its
// tokens' vectors, padding excluded. The error is ErrInference.
func (s *Session) Run(rows [][]int32) ([][]float32, error) {
	b, ok := s.buffers.Get().(*tensors)
	if !ok {
		b = new(tensors)
	}
	defer s.buffers.Put(b)
	width := 0
	for _, r := range rows {
		width = max(width, len(r))
	}
	b.fill(rows, width, int64(s.pad))
	if err := s.infer(b, len(rows), width); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInference, err)
	}
	out := make([][]float32, len(rows))
	for i, r := range rows {
		out[i] = make([]float32, s.dim)
		if s.pooled {
			copy(out[i], b.output[i*s.dim:])
		} else {
			pool(out[i], b.output[i*width*s.dim:], len(r))
		}
	}
	return out, nil
}

// pool sums the vectors of the first n tokens.
func pool(into, tokens []float32, n int) {
	for range n {
		for i := range into {
			into[i] += tokens[i]
		}
		tokens = tokens[len(into):]
	}
}

func (s *Session) infer(b *tensors, rows, width int) error {
	shape := ort.NewShape(int64(rows), int64(width))
	values := make([]ort.Value, 0, len(s.inputs)+1)
	defer func() {
		for _, v := range values {
			_ = v.Destroy()
		}
	}()
	for _, name := range s.inputs {
		t, err := ort.NewTensor(shape, b.input(name))
		if err != nil {
			return err
		}
		values = append(values, t)
	}
	outShape := ort.NewShape(int64(rows), int64(width), int64(s.dim))
	if s.pooled {
		outShape = ort.NewShape(int64(rows), int64(s.dim))
	}
	b.output = grown(b.output, int(outShape.FlattenedSize()))
	out, err := ort.NewTensor(outShape, b.output)
	if err != nil {
		return err
	}
	values = append(values, out)
	return s.ort.Run(values[:len(s.inputs)], values[len(s.inputs):])
}

// tensors are the buffers of one run.
type tensors struct {
	ids, mask, kinds []int64
	output           []float32
}

func (b *tensors) input(name string) []int64 {
	switch name {
	case "input_ids":
		return b.ids
	case "attention_mask":
		return b.mask
	}
	return b.kinds
}

func (b *tensors) fill(rows [][]int32, width int, pad int64) {
	n := len(rows) * width
	b.ids, b.mask, b.kinds = grown(b.ids, n), grown(b.mask, n), grown(b.kinds, n)
	clear(b.mask)
	clear(b.kinds)
	for i, r := range rows {
		at := i * width
		for j, id := range r {
			b.ids[at+j], b.mask[at+j] = int64(id), 1
		}
		for j := len(r); j < width; j++ {
			b.ids[at+j] = pad
		}
	}
}

// grown returns a slice of length n, which reuses s if that is large enough.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
