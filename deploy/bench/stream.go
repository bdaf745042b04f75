package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
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
	// pacedCalls is the number of paced streams where one at a time is open.
	pacedCalls = 3
	// openPause keeps the streams open whose memory is measured.
	openPause = 200 * time.Millisecond
)

// crowdedStreams are so many streams that their chunks alone take both processors.
const crowdedStreams = 1000

// Names of the figures of streams, in ms.
const (
	figureFirst   = "first"
	figureFirst99 = "first99"
	figureChunk   = "chunk"
	figureChunk99 = "chunk99"
)

// stream compares streamed answers through Unloop with the same through a bare proxy.
func (b *bench) stream(ctx context.Context) error {
	upstream, err := b.started.role(ctx, "streamer")
	if err != nil {
		return err
	}
	names, instances, err := b.streamInstances(ctx, upstream.Addr, &b.started)
	if err != nil {
		return err
	}
	memory, err := b.memoryOfStreams(ctx, upstream.Addr)
	if err != nil {
		return err
	}
	paced := measure.Plan{Rounds: (b.plan.Rounds + 1) / 2, Calls: pacedCalls, Levels: b.streams}
	if err := b.compareStreams(ctx, paced, b.pause, names, instances); err != nil {
		return err
	}
	atOnce := measure.Plan{Rounds: b.plan.Rounds, Sample: b.plan.Sample, Levels: b.streams}
	if err := b.compareStreams(ctx, atOnce, 0, names, instances); err != nil {
		return err
	}
	t := &measure.Table{Head: append([]string{""}, names...)}
	t.Add(append([]string{fmt.Sprintf("KiB of memory for each of %d open streams", slices.Max(b.streams))}, memory...)...)
	fmt.Fprintln(b.out)
	b.print(t)
	return nil
}

// streamInstances starts a bare proxy and Unloop, and returns their names.
func (b *bench) streamInstances(ctx context.Context, upstream string, parts *ender) ([]string, []*instance, error) {
	proxy, err := startProxy(ctx, upstream, parts)
	if err != nil {
		return nil, nil, err
	}
	names, instances := []string{nameProxy}, []*instance{proxy}
	for _, rival := range b.rivals() {
		in, err := b.startUp(ctx, unloop{binary: rival.binary}, upstream, parts)
		if err != nil {
			return nil, nil, err
		}
		names, instances = append(names, nameUnloop+rival.suffix), append(instances, in)
	}
	return names, instances, nil
}

func (b *bench) compareStreams(ctx context.Context, plan measure.Plan, pause time.Duration, names []string, instances []*instance) error {
	var contenders []measure.Contender
	for i, in := range instances {
		contenders = append(contenders, b.streamContender(names[i], in, pause))
	}
	res, err := measure.Compare(ctx, plan, contenders...)
	if err != nil {
		return err
	}
	how := "at once"
	if pause > 0 {
		how = "every " + pause.String()
	}
	b.title("streams of %d chunks, %s", chunks, how)
	t := &measure.Table{Head: append([]string{"with " + res.Levels() + " streams open"}, names...)}
	for _, f := range streamFigures {
		res.Row(t, f.name, f.format, f.value, &measure.Beside{
			Base: nameProxy, Format: f.more, Compare: func(a, b measure.Sample) float64 { return f.value(a) - f.value(b) },
		})
	}
	b.print(t)
	if pause > 0 {
		b.streamTargets(res)
	}
	return nil
}

// streamTargets prints where the first binary stands, as long as the machine has time
// left.
func (b *bench) streamTargets(res *measure.Results) {
	var calm []int
	for _, level := range b.streams {
		if level < crowdedStreams {
			calm = append(calm, level)
		}
	}
	under := func(text, figure string, most float64) measure.Target {
		return res.AtMost(text, nameUnloop, nameProxy, most, " ms",
			func(a, b measure.Sample) float64 { return a.Figures[figure] - b.Figures[figure] }, calm...)
	}
	measure.PrintTargets(b.out,
		under("first streamed byte at most 0.3 ms after the bare proxy's", figureFirst, 0.3),
		under("a chunk at most 0.03 ms later than through the bare proxy", figureChunk, 0.03))
}

// streamFigures are the rows of a table of streams. What Unloop has more of than the bare
// proxy is behind its figures.
var streamFigures = []struct {
	name, format, more string
	value              func(measure.Sample) float64
}{
	{"first chunk after ms, p50", "%.2f", "%+.2f", perCall(figureFirst)},
	{"first chunk after ms, p99", "%.1f", "%+.1f", perCall(figureFirst99)},
	{"delay of a chunk in ms, p50", "%.3f", "%+.3f", perCall(figureChunk)},
	{"delay of a chunk in ms, p99", "%.1f", "%+.1f", perCall(figureChunk99)},
	{"processor ms per stream", "%.2f", "%+.2f", perCall(figureProcessor)},
	{"allocations per stream", "%.0f", "%+.0f", perCall(figureAllocations)},
}

// viewer opens streams and notes when their chunks arrive.
type viewer struct {
	mu            sync.Mutex
	first, delays []time.Duration
}

// streamContender opens one stream after another with each caller, the first ones spread
// over some time.
func (b *bench) streamContender(name string, in *instance, gap time.Duration) measure.Contender {
	v := &viewer{}
	return measure.Contender{Name: name, Meter: in.read, Take: v.take, Caller: func(_, caller int) (measure.Op, func(), error) {
		conn, err := dial(in.url)
		if err != nil {
			return nil, nil, err
		}
		conn.path += pauseQuery(gap)
		_, share := math.Modf(float64(caller) * math.Phi) // spreads any number of callers evenly
		wait := time.Duration(share * float64(spread*gap))
		op := func(ctx context.Context) error {
			if err := pause.For(ctx, wait); err != nil {
				return err
			}
			wait = 0
			return v.watch(ctx, conn, streamPrompt(int64(b.replays.Add(1))))
		}
		return op, conn.close, nil
	}}
}

func pauseQuery(pause time.Duration) string { return "?pause=" + pause.String() }

func streamPrompt(number int64) []byte {
	return []byte(strings.Replace(prompt(number), "{", `{"stream":true,`, 1))
}

var errChunks = errors.New("wrong number of chunks")

// watch opens a stream and reads it to its end.
func (v *viewer) watch(ctx context.Context, conn *client, body []byte) error {
	var first time.Duration
	delays := make([]time.Duration, 0, chunks)
	began := time.Now()
	err := conn.stream(ctx, shortKey, body, func(line []byte) {
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

// oftenCollected is a GOGC with which a process has hardly any garbage.
const oftenCollected = "2"

// memoryOfStreams opens as many streams as are open at most, and returns the memory that
// each process holds for one. The instances are of its own: they collect garbage all the
// time, and have no memory of other streams to use again.
func (b *bench) memoryOfStreams(ctx context.Context, upstream string) (_ []string, err error) {
	var parts ender
	defer func() { err = errors.Join(err, parts.end()) }()
	if err := os.Setenv("GOGC", oftenCollected); err != nil {
		return nil, fmt.Errorf("have garbage collected: %w", err)
	}
	_, instances, err := b.streamInstances(ctx, upstream, &parts)
	if err := errors.Join(err, os.Unsetenv("GOGC")); err != nil {
		return nil, err
	}
	var out []string
	for _, in := range instances {
		n := slices.Max(b.streams)
		v := &viewer{}
		conn, err := dial(in.url)
		if err != nil {
			return nil, err
		}
		conn.path += pauseQuery(0)
		for range 20 { // what the first requests make stays
			if err := v.watch(ctx, conn, streamPrompt(int64(b.replays.Add(1)))); err != nil {
				return nil, err
			}
		}
		conn.close()
		before := usage.Memory(in.processes[0].PID())
		during, err := b.whileOpen(ctx, in, n)
		if err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprintf("%.1f", float64(during-before)/1024/float64(n)))
	}
	return out, nil
}

// whileOpen returns the memory of an instance while n streams are open.
func (b *bench) whileOpen(ctx context.Context, in *instance, n int) (memory int64, err error) {
	var conns []*client
	defer func() {
		for _, c := range conns {
			c.close()
		}
	}()
	var opening sync.WaitGroup
	faults := make([]error, n)
	for i := range n {
		conn, err := dial(in.url)
		if err != nil {
			return 0, err
		}
		conn.path += pauseQuery(openPause)
		conns = append(conns, conn)
		opening.Go(func() {
			faults[i] = conn.send(ctx, shortKey, streamPrompt(int64(b.replays.Add(1))))
			if faults[i] == nil {
				_, faults[i] = conn.head()
			}
		})
	}
	opening.Wait()
	return usage.Memory(in.processes[0].PID()), errors.Join(faults...)
}
