//go:build cgo

package embed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/embedworker/internal/onnx"
	"github.com/unloop/unloop/embedworker/realparts"
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

// BenchmarkModel compares the embedder, from text to vector, with the session
// alone on rows of the same shape; one thread.
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
		for _, shape := range [][2]int{{1, 16}, {1, 32}, {1, 128}, {1, 256}, {16, 32}} {
			texts, rows := same(shape[0], shape[1])
			b.Run(fmt.Sprintf("%s/%d×%d tokens", kind, shape[0], shape[1]), func(b *testing.B) {
				realparts.Versus(b,
					func() error { _, err := e.Embed(context.Background(), texts...); return err },
					func() error { _, err := bare.Run(rows); return err })
			})
		}
	}
}

// same returns texts, and rows of the same length for the session.
func same(n, length int) (texts []string, rows [][]int32) {
	for range n {
		texts = append(texts, tokens(length))
		row := make([]int32, length)
		for j := range row {
			row[j] = int32(1000 + rand.IntN(20000))
		}
		rows = append(rows, row)
	}
	return texts, rows
}
