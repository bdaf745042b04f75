package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/usage"
	"github.com/unloop/unloop/schemas/kit/pause"
)

const (
	// spread is the time, in pauses between chunks, over which the streams of a sample
	// begin: half the length of a stream.
	spread = chunks / 2
	// streamCalls is the number of streams of a sample with one stream at a time.
	streamCalls = 3
	// openPause keeps streams open while their memory is measured.
	openPause = time.Second
	// oftenCollected keeps a process almost free of garbage.
	oftenCollected = "GOGC=2"
)

// streamFigures are the rows of a table of streams.
var streamFigures = []measure.Figure{
	measure.Figure{Name: "first chunk after ms, p50", Format: "%.2f", Of: "first"}.More(),
	measure.Figure{Name: "first chunk after ms, p99", Format: "%.1f", Of: "first99"}.More(),
	measure.Figure{Name: "delay of a chunk in ms, p50", Format: "%.3f", Of: "chunk"}.More(),
	measure.Figure{Name: "delay of a chunk in ms, p99", Format: "%.1f", Of: "chunk99"}.More(),
	measure.Figure{Name: "processor ms per stream", Format: "%.2f", Of: figureProcessor}.More(),
	measure.Figure{Name: "allocations per stream", Format: "%.0f", Of: figureAllocations}.More(),
}

// stream compares streamed answers through Unloop with the same through a bare proxy.
func (b *bench) stream(ctx context.Context) error {
	_, all, err := b.lineUp(ctx, unloop{name: nameUnloop})
	if err != nil {
		return err
	}
	var contenders []measure.Contender
	for _, in := range all {
		contenders = append(contenders, b.streamContender(in, b.pause))
	}
	res, err := measure.Compare(ctx, measure.Plan{Rounds: (b.plan.Rounds + 1) / 2, Calls: streamCalls, Levels: b.streams}, contenders...)
	if err != nil {
		return err
	}
	b.show(res, nameProxy, streamFigures, fmt.Sprintf("open streams of %d chunks, one every %s", chunks, b.pause))
	return nil
}

// viewer reads streams and records when their chunks arrive.
type viewer struct {
	mu            sync.Mutex
	first, delays []time.Duration
}

// streamContender returns a contender whose callers read one stream after another. Their first
// streams begin at different times.
func (b *bench) streamContender(in *instance, gap time.Duration) measure.Contender {
	v := &viewer{}
	return measure.Contender{Name: in.name, Meter: in.read, Take: v.take, Caller: func(_, caller int) (measure.Op, func()) {
		conn := dial(in, streamPath(chunks, gap))
		_, share := math.Modf(float64(caller) * math.Phi) // spreads any number of callers evenly
		wait := time.Duration(share * float64(spread*gap))
		op := func(ctx context.Context) error {
			if err := pause.For(ctx, wait); err != nil {
				return err
			}
			wait = 0
			return v.watch(conn)
		}
		return op, conn.close
	}}
}

// streamPath returns a path that is answered with a stream of so many chunks.
func streamPath(chunks int, gap time.Duration) string {
	return fmt.Sprintf("%s?%s=%d&%s=%s", chatPath, chunksKey, chunks, pauseKey, gap)
}

// streaming returns a request for a streamed answer.
func streaming(body []byte) []byte {
	return bytes.Replace(body, []byte("{"), []byte(`{"stream":true,`), 1)
}

// watch opens a stream and reads it to its end.
func (v *viewer) watch(conn *client) error {
	var first time.Duration
	delays := make([]time.Duration, 0, chunks)
	began := time.Now()
	_, err := conn.post(shortKey, streaming(uniquePrompt(0)), func(line []byte) {
		sent, ok := sentAt(line)
		if !ok {
			return
		}
		now := time.Now()
		if len(delays) == 0 {
			first = now.Sub(began)
		}
		delays = append(delays, time.Duration(now.UnixNano()-sent))
	})
	if err == nil && len(delays) != chunks {
		err = fmt.Errorf("%w: %d chunks, want %d", errAnswer, len(delays), chunks)
	}
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.first, v.delays = append(v.first, first), append(v.delays, delays...)
	return nil
}

// sentAt returns the time at which the upstream sent a chunk, in Unix nanoseconds.
func sentAt(line []byte) (int64, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(chunkHead))
	if !ok {
		return 0, false
	}
	digits, _, _ := bytes.Cut(rest, []byte(`"`))
	at, err := strconv.ParseInt(string(digits), 10, 64)
	return at, err == nil
}

// take returns the figures of the streams since the last call, in ms.
func (v *viewer) take() measure.Reading {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := measure.Reading{
		"first": measure.Percentile(v.first, 50), "first99": measure.Percentile(v.first, 99),
		"chunk": measure.Percentile(v.delays, 50), "chunk99": measure.Percentile(v.delays, 99),
	}
	v.first, v.delays = nil, nil
	return out
}

// streamMemory measures how much memory each process holds for an open stream. Its processes
// collect garbage all the time and have no memory left from other streams.
func (b *bench) streamMemory(ctx context.Context) error {
	_, all, err := b.lineUp(ctx, unloop{name: nameUnloop, env: []string{oftenCollected}})
	if err != nil {
		return err
	}
	n := slices.Max(b.streams)
	t, row := &measure.Table{Head: []string{""}}, []string{"KiB of memory for each stream"}
	for _, in := range all {
		warmUp := measure.Plan{Calls: 20, Levels: []int{1}} // what the first requests allocate stays
		if _, err := measure.Compare(ctx, warmUp, b.streamContender(in, 0)); err != nil {
			return err
		}
		before := usage.Memory(in.processes[0].pid)
		for range n {
			res, err := dial(in, streamPath(chunks, openPause)).open(shortKey, streaming(uniquePrompt(0)))
			if err != nil {
				return err
			}
			b.add(res.CloseBodyStream)
		}
		held := usage.Memory(in.processes[0].pid) - before
		t.Head, row = append(t.Head, in.name), append(row, fmt.Sprintf("%.1f", float64(held)/1024/float64(n)))
	}
	t.Add(row...)
	b.print(t, fmt.Sprintf("%d open streams, garbage collected all the time", n))
	return nil
}
