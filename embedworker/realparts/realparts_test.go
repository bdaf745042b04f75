package realparts

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/unloop/unloop/embedworker/realparts/bertfile"
)

// TestEveryPartIsThere fetches every part that this machine can have, so that
// running this package first leaves the other tests nothing to wait for.
func TestEveryPartIsThere(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]func(t *testing.T) string{
		"ONNX Runtime":     func(t *testing.T) string { return ONNXRuntime(t) },
		"its package":      func(t *testing.T) string { return RuntimeArchive(t) },
		"Transformers.js":  func(t *testing.T) string { return filepath.Join(part(t, "transformers"), "@huggingface") },
		"MiniLM's shape":   func(t *testing.T) string { return filepath.Join(MiniLMModel(t, false), "model.onnx") },
		"the same in int8": func(t *testing.T) string { return filepath.Join(MiniLMModel(t, true), "model.onnx") },
		"a tiny model":     func(t *testing.T) string { return filepath.Join(TinyModel(t), "model.onnx") },
		"Redis 8":          func(t *testing.T) string { return part(t, "redis-8") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat(part(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRedisStartsEmptyAndEnds(t *testing.T) {
	t.Parallel()
	s := Redis(t)
	s.Stop()
	s.Stop() // once more does nothing
	s.Start()
	if s.process == nil || s.URL() == "redis://" {
		t.Errorf("server at %q", s.URL())
	}
}

func TestModelFilesAreTheSameEachTime(t *testing.T) {
	t.Parallel()
	shape := bertfile.Shape{Width: 8, Layers: 1, Heads: 2, Inner: 16, Vocabulary: 20, Positions: 32}
	first, second := bertfile.Encode(shape), bertfile.Encode(shape)
	if !bytes.Equal(first, second) {
		t.Error("two files of one shape differ")
	}
}
