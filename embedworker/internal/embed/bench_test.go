//go:build cgo

package embed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/internal/onnx"
	"github.com/unloop/unloop/embedworker/internal/realparts"
)

// tokens returns a text of n tokens with the special ones.
func tokens(n int) string {
	common := strings.Fields("the agent reads a file and writes an answer about every open question that was asked before now")
	out := make([]string, n-2)
	for i := range out {
		out[i] = common[rand.IntN(len(common))]
	}
	return strings.Join(out, " ")
}

// BenchmarkModel compares the embedder, from text to vector, with the bare
// session on tensors of the same shape; one thread.
func BenchmarkModel(b *testing.B) {
	for _, quantized := range []bool{false, true} {
		kind := map[bool]string{false: "fp32", true: "int8"}[quantized]
		dir := realparts.MiniLMModel(b, quantized)
		c := config(b, dir)
		c.Limits.Threads = 1
		e := open(b, c)
		bare, err := onnx.Open(onnx.Config{Runtime: c.Runtime, Model: filepath.Join(dir, "model.onnx"), Threads: 1})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = bare.Close() })
		for _, n := range []int{16, 32, 128, 256} {
			b.Run(fmt.Sprintf("%s/%d tokens/ours", kind, n), func(b *testing.B) { embedAll(b, e, 1, n) })
			b.Run(fmt.Sprintf("%s/%d tokens/bare", kind, n), func(b *testing.B) { runAll(b, bare, 1, n) })
		}
		b.Run(kind+"/16 texts of 32 tokens/ours", func(b *testing.B) { embedAll(b, e, 16, 32) })
		b.Run(kind+"/16 texts of 32 tokens/bare", func(b *testing.B) { runAll(b, bare, 16, 32) })
	}
}

func embedAll(b *testing.B, e embed.Embedder, texts, n int) {
	b.Helper()
	all := make([]string, texts)
	for i := range all {
		all[i] = tokens(n)
	}
	for b.Loop() {
		if _, err := e.Embed(context.Background(), all...); err != nil {
			b.Fatal(err)
		}
	}
}

func runAll(b *testing.B, s *onnx.Session, rows, n int) {
	b.Helper()
	ids := make([][]int32, rows)
	for i := range ids {
		ids[i] = make([]int32, n)
		for j := range ids[i] {
			ids[i][j] = int32(1000 + rand.IntN(20000))
		}
	}
	for b.Loop() {
		if _, err := s.Run(ids); err != nil {
			b.Fatal(err)
		}
	}
}
