//go:build cgo

package embedworker_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/embedworker/realparts"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// words returns a text of about n tokens that no other call returns, so that
// no cache answers it.
func words(n int) string {
	common := strings.Fields("the agent reads a file and writes an answer about every open question that was asked before now")
	var b strings.Builder
	for range n - 2 {
		b.WriteString(common[rand.IntN(len(common))] + " ")
	}
	return b.String()
}

// BenchmarkRoundTrip is a check on NATS with a history: the median is what
// counts against the budget.
func BenchmarkRoundTrip(b *testing.B) {
	lexicalConfig, model := lexical(), onnx(b, realparts.MiniLMModel(b, false))
	for _, c := range []struct {
		name   string
		cfg    embedworker.Config
		tokens int
	}{{"lexical/32 tokens", lexicalConfig, 32}, {"model/32 tokens", model, 32}, {"model/128 tokens", model, 128}, {"model/cached", model, 0}} {
		b.Run(c.name, func(b *testing.B) {
			nc := natstest.StartBare(b).Conn()
			start(b, nc, c.cfg)
			cached := words(32)
			text := func() string {
				if c.tokens == 0 {
					return cached
				}
				return words(c.tokens)
			}
			for range 6 {
				ask(b, nc, prompt("bench", text()))
			}
			times := make([]time.Duration, 0, b.N)
			for b.Loop() {
				began := time.Now()
				ask(b, nc, prompt("bench", text()))
				times = append(times, time.Since(began))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "median-µs")
		})
	}
}

// BenchmarkInFlight is the throughput of texts of 32 tokens, one at a time and
// 64 at once, with one thread inside the model: what batching gains.
func BenchmarkInFlight(b *testing.B) {
	cfg := onnx(b, realparts.MiniLMModel(b, false))
	cfg.ModelThreads = 1
	for _, inFlight := range []int{1, 64} {
		b.Run(fmt.Sprint(inFlight), func(b *testing.B) {
			nc := natstest.StartBare(b).Conn()
			start(b, nc, cfg)
			flood(b, nc, inFlight)
		})
	}
}

func flood(b *testing.B, nc *nats.Conn, inFlight int) {
	b.Helper()
	var session atomic.Int64
	slots := make(chan struct{}, inFlight)
	for b.Loop() {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			reply, err := send(nc, prompt(fmt.Sprint(session.Add(1)), words(32)))
			if err != nil || reply.GetError() != 0 {
				b.Errorf("%v, %v", reply, err)
			}
		}()
	}
	for range inFlight {
		slots <- struct{}{}
	}
}
