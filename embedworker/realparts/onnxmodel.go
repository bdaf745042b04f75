package realparts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/embedworker/realparts/bertfile"
)

// TinyVocab is the vocabulary of TinyModel; an id is a word's index.
var TinyVocab = strings.Fields(`[PAD] [UNK] [CLS] [SEP] [MASK] a b c d e f g h i j k l m n o p q r s t u v w x y z
	##a ##b ##c ##d ##e ##f ##g ##h ##i ##j ##k ##l ##m ##n ##o ##p ##q ##r ##s ##t ##u ##v ##w ##x ##y ##z
	0 1 2 3 4 5 6 7 8 9 . , ! ? the same question in other words please try again`)

// TinyModel returns a model folder with a BERT of a few kilobytes, that runs
// in microseconds: model.onnx and vocab.txt.
func TinyModel(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	shape := bertfile.Shape{Width: 16, Layers: 2, Heads: 4, Inner: 32, Vocabulary: len(TinyVocab), Positions: 512}
	write(tb, filepath.Join(dir, "model.onnx"), bertfile.Encode(shape))
	write(tb, filepath.Join(dir, "vocab.txt"), []byte(strings.Join(TinyVocab, "\n")+"\n"))
	return dir
}

// MiniLMShape is the shape of all-MiniLM-L6-v2.
var MiniLMShape = bertfile.Shape{Width: 384, Layers: 6, Heads: 12, Inner: 1536, Vocabulary: 30522, Positions: 512}

// MiniLMModel returns a model folder with MiniLM's tokenizer and a model of its
// graph and size with seeded random weights, of 8-bit integers if asked. The
// layout under onnx/ beside the plain one is what transformers.js wants.
func MiniLMModel(tb testing.TB, int8 bool) string {
	tb.Helper()
	files := MiniLM(tb)
	shape := MiniLMShape
	shape.Int8 = int8
	key, err := json.Marshal(shape)
	if err != nil {
		tb.Fatal(err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", bertfile.Version, key))
	return once(tb, "minilm-shape-"+hex.EncodeToString(sum[:6]), func(into string) error {
		for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "config.json", "vocab.txt"} {
			data, err := os.ReadFile(filepath.Join(files, name))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(into, name), data, 0o644); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(into, "model.onnx"), bertfile.Encode(shape), 0o644); err != nil {
			return err
		}
		if err := os.Mkdir(filepath.Join(into, "onnx"), 0o755); err != nil {
			return err
		}
		return os.Link(filepath.Join(into, "model.onnx"), filepath.Join(into, "onnx", "model.onnx"))
	})
}

func write(tb testing.TB, path string, data []byte) {
	tb.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		tb.Fatal(err)
	}
}
