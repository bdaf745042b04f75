//go:build cgo

package embed_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/internal/wordpiece"
	"github.com/unloop/unloop/embedworker/realparts"
)

func config(tb testing.TB, dir string) embed.Config {
	tb.Helper()
	return embed.Config{Kind: embed.KindONNX, Model: dir, Runtime: realparts.ONNXRuntime(tb), Limits: embed.DefaultLimits()}
}

func open(tb testing.TB, c embed.Config) embed.Embedder {
	tb.Helper()
	e, err := embed.Open(tb.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

const transformersScript = `
import { pipeline, env } from '@huggingface/transformers';
import fs from 'node:fs';
import path from 'node:path';
const folder = process.argv[process.argv.length - 1];
env.localModelPath = path.dirname(folder);
env.allowRemoteModels = false;
env.allowLocalModels = true;
const extract = await pipeline('feature-extraction', path.basename(folder), {dtype: 'fp32'});
const out = [];
for (const text of JSON.parse(fs.readFileSync(0, 'utf8')))
  out.push(Array.from((await extract(text, {pooling: 'mean', normalize: true})).data));
fs.writeFileSync(1, JSON.stringify(out));
`

func TestEmbeddingsAreThoseOfTransformersJS(t *testing.T) {
	t.Parallel()
	folder, err := filepath.EvalSymlinks(realparts.MiniLMModel(t, false))
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{
		"Hello, world!", "The agent asked the same question again, in other words.", `{"tool":"search","args":{"q":"weather in Zürich","n":5}}`,
		"def f(x):\n\treturn x ** 2  # squared", "東京の天気はどうですか", "👍🏽 looks good", "x",
		strings.Repeat("a longer text about retrieval and vectors, ", 12), strings.Repeat("word ", 253),
	}
	tokenizer, err := wordpiece.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(tokenizer.Append(nil, texts[len(texts)-1])); n != 253 {
		t.Fatalf("longest text has %d tokens", n)
	}
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	var want [][]float32
	if err := json.Unmarshal(realparts.Script(t, transformersScript, bytes.NewReader(in), folder), &want); err != nil {
		t.Fatal(err)
	}
	e := open(t, config(t, folder))
	got, err := e.Embed(t.Context(), texts...)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if len(want[i]) != e.Dim() {
			t.Fatalf("reference vectors have %d dimensions, ours %d", len(want[i]), e.Dim())
		}
		for j := range got[i] {
			if d := math.Abs(float64(got[i][j] - want[i][j])); d > 1e-4 {
				t.Errorf("%.30q: coordinate %d differs by %g", text, j, d)
				break
			}
		}
	}
}

func TestABatchGivesWhatEachTextGivesAlone(t *testing.T) {
	t.Parallel()
	e := open(t, config(t, realparts.TinyModel(t)))
	texts := make([]string, 24)
	for i := range texts {
		texts[i] = strings.Repeat("the same question ", 1+i*2) + fmt.Sprint(i)
	}
	together := make([][]float32, len(texts))
	var wait sync.WaitGroup
	for i, text := range texts {
		wait.Go(func() {
			v, err := e.Embed(t.Context(), text)
			if err != nil {
				t.Error(err)
				return
			}
			together[i] = v[0]
		})
	}
	wait.Wait()
	for i, text := range texts {
		alone, err := e.Embed(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		if c := embed.Cosine(alone[0], together[i]); c < 0.99999 {
			t.Errorf("text %d: cosine %g between alone and together", i, c)
		}
	}
}

func TestLongTextsKeepTheirEnd(t *testing.T) {
	t.Parallel()
	e := open(t, config(t, realparts.TinyModel(t)))
	end := strings.Repeat("x y ", 127) // 254 tokens, and the two around them
	if got := similarity(t, e, "a b c d "+end, end); got < 0.99999 {
		t.Errorf("the beginning of a long text changed it: %g", got)
	}
	if got := similarity(t, e, end+" a b c d", end); got > 0.99999 {
		t.Error("the end of a long text did not change it")
	}
}

func TestTextsWithoutTokensAreRefused(t *testing.T) {
	t.Parallel()
	e := open(t, config(t, realparts.TinyModel(t)))
	if _, err := e.Embed(t.Context(), "a", " \x00 "); !errors.Is(err, embed.ErrEmpty) {
		t.Errorf("got %v, want ErrEmpty", err)
	}
}

func TestBrokenModelsStopTheWorkerAndAutoFallsBack(t *testing.T) {
	t.Parallel()
	whole := realparts.TinyModel(t)
	model, err := os.ReadFile(filepath.Join(whole, "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(c *embed.Config){
		"an empty folder": func(c *embed.Config) { c.Model = t.TempDir() },
		"no runtime":      func(c *embed.Config) { c.Runtime = filepath.Join(t.TempDir(), "libonnxruntime.so") },
		"nothing set":     func(c *embed.Config) { c.Runtime, c.Model = "", "" },
		"half a model":    func(c *embed.Config) { c.Model = folderWith(t, whole, model[:len(model)/2]) },
		"no model at all": func(c *embed.Config) { c.Model = folderWith(t, whole, []byte("not a model")) },
	} {
		c := config(t, whole)
		spoil(&c)
		if _, err := embed.Open(t.Context(), c, slog.New(slog.DiscardHandler)); !errors.Is(err, embed.ErrUnavailable) {
			t.Errorf("%s: got %v, want ErrUnavailable", name, err)
		}
		c.Kind = embed.KindAuto
		var log bytes.Buffer
		e, err := embed.Open(t.Context(), c, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || e.Name() != embed.NewLexical().Name() {
			t.Errorf("%s: auto gave %v, %v", name, e, err)
		}
		if strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%s: auto said\n%s", name, log.String())
		}
	}
}

func folderWith(t *testing.T, whole string, model []byte) string {
	t.Helper()
	dir := t.TempDir()
	vocab, err := os.ReadFile(filepath.Join(whole, "vocab.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"vocab.txt": vocab, "model.onnx": model} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAutoTakesTheModelWhereItWorks(t *testing.T) {
	t.Parallel()
	c := config(t, realparts.TinyModel(t))
	c.Kind = embed.KindAuto
	if e := open(t, c); !strings.HasPrefix(e.Name(), "onnx-") {
		t.Errorf("auto took %s", e.Name())
	}
}

func TestQuantizedModelsRun(t *testing.T) {
	t.Parallel()
	e := open(t, config(t, realparts.MiniLMModel(t, true)))
	if got := similarity(t, e, "the very same text", "the very same text"); got < 0.9999 || e.Dim() != 384 {
		t.Errorf("similarity of a text to itself is %g, at %d dimensions", got, e.Dim())
	}
}
