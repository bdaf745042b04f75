package main

import (
	"bytes"
	"context"
	"errors"
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
	// spread is the time within which the streams of a sample begin, in pauses between
	// chunks: half of a stream.
	spread = chunks / 2
	// streamCalls is the number of streams of a sample where one at a time is open.
	streamCalls = 3
	// openPause keeps the streams open whose memory is measured.
	openPause = 200 * time.Millisecond
)

// Names of the figures of streams, in ms.
const (
	figureFirst   = "first"
	figureFirst99 = "first99"
	figureChunk   = "chunk"
	figureChunk99 = "chunk99"
)

// streamFigures are the rows of a table of streams.
var streamFigures = []measure.Figure{
	measure.Read("first chunk after ms, p50", "%.2f", figureFirst, 1, measure.More("%+.2f")),
	measure.Read("first chunk after ms, p99", "%.1f", figureFirst99, 1, measure.More("%+.1f")),
	measure.Read("delay of a chunk in ms, p50", "%.3f", figureChunk, 1, measure.More("%+.3f")),
	measure.Read("delay of a chunk in ms, p99", "%.1f", figureChunk99, 1, measure.More("%+.1f")),
	measure.Read("processor ms per stream", "%.2f", figureProcessor, 1, measure.More("%+.2f")),
	measure.Read("allocations per stream", "%.0f", figureAllocations, 1, measure.More("%+.0f")),
}

// stream compares streamed answers through Unloop with the same through a bare proxy.
func (b *bench) stream(ctx context.Context) error {
	upstream, err := startRole(ctx, &b.group, originRole)
	if err != nil {
		return err
	}
	memory, err := b.memoryOfStreams(ctx, upstream.url)
	if err != nil {
		return err
	}
	names, instances, err := b.streamInstances(ctx, &b.group, upstream.url)
	if err != nil {
		return err
	}
	var contenders []measure.Contender
	for i, in := range instances {
		contenders = append(contenders, b.streamContender(names[i], in))
	}
	res, err := measure.Compare(ctx, measure.Plan{Rounds: (b.plan.Rounds + 1) / 2, Calls: streamCalls, Levels: b.streams}, contenders...)
	if err != nil {
		return err
	}
	b.printResults(res, nameProxy, streamFigures, "open streams of %d chunks, one every %s", chunks, b.pause)
	t := &measure.Table{Head: append([]string{""}, names...)}
	t.Add(append([]string{"KiB of memory for each stream"}, memory...)...)
	b.print(t, "%d open streams, garbage collected all the time", slices.Max(b.streams))
	return nil
}

// streamInstances starts a bare proxy and Unloop, and returns their names.
func (b *bench) streamInstances(ctx context.Context, g *group, upstream string, env ...string) ([]string, []*instance, error) {
	proxy, err := startRole(ctx, g, proxyRole, upstream)
	if err != nil {
		return nil, nil, err
	}
	names, instances := []string{nameProxy}, []*instance{proxy}
	for _, rival := range b.rivals() {
		in, err := b.startUp(ctx, g, unloop{binary: rival.binary, env: env}, upstream)
		if err != nil {
			return nil, nil, err
		}
		names, instances = append(names, nameUnloop+rival.suffix), append(instances, in)
	}
	return names, instances, nil
}

// viewer opens streams and notes when their chunks arrive.
type viewer struct {
	mu            sync.Mutex
	first, delays []time.Duration
}

// streamContender opens one stream after another with each caller, the first ones spread
// over some time.
func (b *bench) streamContender(name string, in *instance) measure.Contender {
	v := &viewer{}
	return measure.Contender{Name: name, Meter: in.read, Take: v.take, Caller: func(_, caller int) (measure.Op, func(), error) {
		conn, err := dialStream(in, chunks, b.pause)
		if err != nil {
			return nil, nil, err
		}
		_, share := math.Modf(float64(caller) * math.Phi) // spreads any number of callers evenly
		wait := time.Duration(share * float64(spread*b.pause))
		op := func(ctx context.Context) error {
			if err := pause.For(ctx, wait); err != nil {
				return err
			}
			wait = 0
			return v.watch(ctx, conn, b.streamPrompt())
		}
		return op, conn.close, nil
	}}
}

// dialStream returns a connection whose requests are answered by streams of so many chunks.
func dialStream(in *instance, chunks int, gap time.Duration) (*client, error) {
	conn, err := dial(in.url)
	if err == nil {
		conn.path += fmt.Sprintf("?%s=%d&%s=%s", chunksKey, chunks, pauseKey, gap)
	}
	return conn, err
}

func (b *bench) streamPrompt() []byte {
	return streaming([]byte(prompt(int64(b.replays.Add(1)))))
}

// streaming returns a request for a streamed answer.
func streaming(body []byte) []byte {
	return bytes.Replace(body, []byte("{"), []byte(`{"stream":true,`), 1)
}

var errChunks = errors.New("wrong number of chunks")

// watch opens a stream and reads it to its end.
func (v *viewer) watch(ctx context.Context, conn *client, body []byte) error {
	var first time.Duration
	delays := make([]time.Duration, 0, chunks)
	began := time.Now()
	_, err := conn.stream(ctx, shortKey, body, func(line []byte) {
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
		err = fmt.Errorf("%w: %d, want %d", errChunks, len(delays), chunks)
	}
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.first, v.delays = append(v.first, first), append(v.delays, delays...)
	return nil
}

// sentAt returns the time at which the upstream sent a chunk.
func sentAt(line []byte) (int64, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(chunkHead))
	if !ok {
		return 0, false
	}
	digits, _, _ := bytes.Cut(rest, []byte(`"`))
	at, err := strconv.ParseInt(string(digits), 10, 64)
	return at, err == nil
}

// take returns the figures of the streams since it was called last.
func (v *viewer) take() measure.Reading {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := measure.Reading{
		figureFirst: quantile(v.first, 50), figureFirst99: quantile(v.first, 99),
		figureChunk: quantile(v.delays, 50), figureChunk99: quantile(v.delays, 99),
	}
	v.first, v.delays = nil, nil
	return out
}

// quantile returns a percentile in ms.
func quantile(all []time.Duration, percent int) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)*percent/100].Seconds() * 1000
}

// oftenCollected lets a process have hardly any garbage.
const oftenCollected = "GOGC=2"

// memoryOfStreams opens as many streams as are open at most, and returns the memory that
// each process holds for one. It starts its own instances, which collect garbage all the
// time and have no memory left from other streams.
func (b *bench) memoryOfStreams(ctx context.Context, upstream string) (out []string, err error) {
	var g group
	defer func() { err = errors.Join(err, g.end()) }()
	_, instances, err := b.streamInstances(ctx, &g, upstream, oftenCollected)
	if err != nil {
		return nil, err
	}
	for _, in := range instances {
		if err := b.warmUp(ctx, in); err != nil {
			return nil, err
		}
		n := slices.Max(b.streams)
		before := usage.Memory(in.processes[0].pid)
		during, err := b.whileOpen(ctx, in, n)
		if err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprintf("%.1f", float64(during-before)/1024/float64(n)))
	}
	return out, nil
}

// warmUp reads some streams: what the first requests make stays.
func (b *bench) warmUp(ctx context.Context, in *instance) error {
	conn, err := dialStream(in, chunks, 0)
	if err != nil {
		return err
	}
	defer conn.close()
	for range 20 {
		if err := (&viewer{}).watch(ctx, conn, b.streamPrompt()); err != nil {
			return err
		}
	}
	return nil
}

// whileOpen returns the memory of an instance while n streams are open.
func (b *bench) whileOpen(ctx context.Context, in *instance, n int) (memory int64, err error) {
	var opening sync.WaitGroup
	var conns group
	defer func() { err = errors.Join(err, conns.end()) }()
	faults := make([]error, n)
	for i := range n {
		conn, err := dialStream(in, chunks, openPause)
		if err != nil {
			return 0, err
		}
		conns.add(conn.conn.Close)
		opening.Go(func() {
			if faults[i] = conn.send(ctx, shortKey, b.streamPrompt()); faults[i] == nil {
				_, faults[i] = conn.head()
			}
		})
	}
	opening.Wait()
	return usage.Memory(in.processes[0].pid), errors.Join(faults...)
}
