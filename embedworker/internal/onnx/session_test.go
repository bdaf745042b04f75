//go:build cgo

package onnx

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/unloop/unloop/embedworker/realparts"
	"github.com/unloop/unloop/embedworker/realparts/bertfile"
)

func tiny() bertfile.Shape {
	return bertfile.Shape{Width: 8, Layers: 1, Heads: 2, Inner: 16, Vocabulary: 50, Positions: 64}
}

func openShape(tb testing.TB, shape bertfile.Shape) *Session {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "model.onnx")
	if err := os.WriteFile(path, bertfile.Encode(shape), 0o600); err != nil {
		tb.Fatal(err)
	}
	return openFile(tb, path)
}

func openFile(tb testing.TB, path string) *Session {
	tb.Helper()
	s, err := Open(Config{Runtime: realparts.ONNXRuntime(tb), Model: path, Threads: 1})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func near(a, b []float32) bool {
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > 1e-4*max(1, math.Abs(float64(b[i]))) {
			return false
		}
	}
	return len(a) == len(b)
}

func TestPaddingChangesNothing(t *testing.T) {
	t.Parallel()
	short, long := []int32{2, 7, 9, 3}, []int32{2, 4, 5, 6, 7, 8, 9, 10, 11, 3}
	for name, shape := range map[string]bertfile.Shape{
		"plain": tiny(), "without segments": func() bertfile.Shape { s := tiny(); s.NoSegments = true; return s }(),
	} {
		s := openShape(t, shape)
		alone, err := s.Run([][]int32{short})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		both, err := s.Run([][]int32{long, short})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !near(alone[0], both[1]) || near(both[0], both[1]) || len(alone[0]) != s.Dim() {
			t.Errorf("%s: alone %v, beside a longer row %v", name, alone[0], both[1])
		}
	}
}

func TestModelsThatPoolByThemselvesAreTakenAsTheyAre(t *testing.T) {
	t.Parallel()
	shape := tiny()
	plain := openShape(t, shape)
	shape.Pooled = true
	pooled := openShape(t, shape)
	row := [][]int32{{2, 7, 9, 3}}
	sum, err := plain.Run(row)
	if err != nil {
		t.Fatal(err)
	}
	mean, err := pooled.Run(row)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sum[0] {
		sum[0][i] /= float32(len(row[0]))
	}
	if !near(mean[0], sum[0]) {
		t.Errorf("pooled %v, mean of the tokens %v", mean[0], sum[0])
	}
}

func TestRunsAtTheSameTimeDoNotMix(t *testing.T) {
	t.Parallel()
	s := openShape(t, tiny())
	var wait sync.WaitGroup
	for id := range int32(16) {
		wait.Go(func() {
			first, err := s.Run([][]int32{{id, id + 1, id + 2}})
			if err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				if again, err := s.Run([][]int32{{id, id + 1, id + 2}}); err != nil || !near(again[0], first[0]) {
					t.Errorf("row of %d: %v, %v", id, again, err)
				}
			}
		})
	}
	wait.Wait()
}

func TestTokensThatTheModelLacksAreAnError(t *testing.T) {
	t.Parallel()
	s := openShape(t, tiny())
	if _, err := s.Run([][]int32{{49, 50}}); !errors.Is(err, ErrInference) {
		t.Errorf("got %v, want ErrInference", err)
	}
	if _, err := s.Run([][]int32{{1, 2, 3}}); err != nil {
		t.Errorf("the session did not outlive it: %v", err)
	}
}

func TestModelsOfOtherKindsAreRefused(t *testing.T) {
	t.Parallel()
	input := func(name string, kind ort.TensorElementDataType) ort.InputOutputInfo {
		return ort.InputOutputInfo{Name: name, DataType: kind}
	}
	for name, inputs := range map[string][]ort.InputOutputInfo{
		"pixels":       {input("pixel_values", ort.TensorElementDataTypeFloat)},
		"float tokens": {input("input_ids", ort.TensorElementDataTypeFloat)},
		"no tokens":    {input("attention_mask", ort.TensorElementDataTypeInt64)},
	} {
		if _, err := chooseInputs(inputs); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	scores := ort.InputOutputInfo{Name: "logits", DataType: ort.TensorElementDataTypeFloat, Dimensions: ort.NewShape(2)}
	if _, err := chooseOutput([]ort.InputOutputInfo{scores}); err == nil {
		t.Error("a model without vectors was taken")
	}
}

// BenchmarkRun is this package against the bare session on the same tensors.
func BenchmarkRun(b *testing.B) {
	s := openFile(b, filepath.Join(realparts.MiniLMModel(b, false), "model.onnx"))
	row := make([]int32, 32)
	for i := range row {
		row[i] = int32(1000 + rand.IntN(20000))
	}
	memory := new(tensors)
	memory.fill([][]int32{row}, len(row), 0)
	shape := ort.NewShape(1, int64(len(row)))
	var in []ort.Value
	for _, name := range s.inputs {
		v, err := ort.NewTensor(shape, memory.input(name))
		if err != nil {
			b.Fatal(err)
		}
		in = append(in, v)
	}
	out, err := ort.NewEmptyTensor[float32](ort.NewShape(1, int64(len(row)), int64(s.dim)))
	if err != nil {
		b.Fatal(err)
	}
	realparts.Versus(b,
		func() error { _, err := s.Run([][]int32{row}); return err },
		func() error { return s.ort.Run(in, []ort.Value{out}) })
}
