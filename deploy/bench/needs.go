package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/usage"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

const (
	// writers write at once to one stream, each writeGroup records of writeSize bytes
	// before it waits.
	writers    = 4
	writeGroup = 256
	writeSize  = 200
	// writeStream is their stream.
	writeStream = "BENCH"
)

// writeTime returns the processor time in seconds that a server takes for a write to one
// stream, with several at once. What one thread does of it at a time is no more than that.
func (b *bench) writeTime(ctx context.Context) (seconds float64, err error) {
	var parts ender
	defer func() { err = errors.Join(err, parts.end()) }()
	dir, err := b.store()
	if err != nil {
		return 0, err
	}
	server, err := parts.role(ctx, "nats", dir)
	if err != nil {
		return 0, err
	}
	if err := b.makeStream(ctx, server.Addr); err != nil {
		return 0, err
	}
	const name = "writes to one stream"
	plan := b.plan
	plan.Levels = []int{writers}
	res, err := measure.Compare(ctx, plan, measure.Contender{Name: name, Caller: func(round, caller int) (measure.Op, func(), error) {
		return b.writer(server.Addr, round, caller)
	}, Meter: func(context.Context) (measure.Reading, error) {
		return processorTimes(map[string][]int{figureNATS: {server.PID()}})
	}})
	if err != nil {
		return 0, err
	}
	m := res.Median(name, writers)
	seconds = m.Figures[figureNATS] / 1000 / writeGroup
	b.title("new records of %d bytes, written to one stream without waiting for each", writeSize)
	fmt.Fprintf(b.out, "%s/s, with %.1f µs of the server's processor time for each\n", measure.Grouped(m.PerSecond*writeGroup), 1e6*seconds)
	return seconds, nil
}

func (b *bench) makeStream(ctx context.Context, url string) error {
	conn, err := natskit.Connect(url, "bench", b.log)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.JetStream().CreateStream(ctx, jetstream.StreamConfig{
		Name: writeStream, Subjects: []string{writeStream + ".>"}, MaxMsgsPerSubject: 1, AllowMsgTTL: true, AllowDirect: true,
	}); err != nil {
		return fmt.Errorf("make a stream: %w", err)
	}
	return nil
}

// writer returns an operation that writes a group of records, each under a subject of its
// own.
func (b *bench) writer(url string, round, caller int) (measure.Op, func(), error) {
	conn, err := natskit.Connect(url, "bench", b.log)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn.NATS(), jetstream.WithPublishAsyncMaxPending(writeGroup))
	if err != nil {
		return nil, conn.Close, err
	}
	record, written := make([]byte, writeSize), 0
	op := func(ctx context.Context) error {
		var last jetstream.PubAckFuture
		for range writeGroup {
			written++
			msg := nats.NewMsg(fmt.Sprintf("%s.%d.%d.%d", writeStream, round, caller, written))
			msg.Data = record
			msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, "0")
			msg.Header.Set(jetstream.MsgTTLHeader, strconv.Itoa(3600))
			if last, err = js.PublishMsgAsync(msg); err != nil {
				return fmt.Errorf("write a record: %w", err)
			}
		}
		select {
		case <-js.PublishAsyncComplete():
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case err := <-last.Err():
			return fmt.Errorf("write a record: %w", err)
		default:
			return nil
		}
	}
	return op, conn.Close, nil
}

// serviceNames are the processes of Unloop, in the order in which they are started.
var serviceNames = []string{"NATS server", "embedding worker", "detector", "gateway"}

// needsLevel is the number of requests in flight while their needs are measured.
const needsLevel = 64

// needs measures what requests of sessions take of each process, and what conversations
// leave.
func (b *bench) needs(ctx context.Context, perWrite float64) (err error) {
	s, err := b.newStage(ctx)
	defer func() { err = errors.Join(err, s.end()) }()
	if err != nil {
		return err
	}
	in, err := b.startApart(ctx, unloop{binary: b.binary}, s.upstream, &s.ender)
	if err != nil {
		return err
	}
	c := b.sessionContender(nameApart, in, s.all)
	written, err := b.writesOf(ctx, in, c)
	if err != nil {
		return err
	}
	before, conversations := memories(in), b.replays.Load()
	c.Meter = func(context.Context) (measure.Reading, error) {
		of := map[string][]int{}
		for i, p := range in.processes {
			of[serviceNames[i]] = []int{p.PID()}
		}
		return processorTimes(of)
	}
	plan := b.sessionPlan()
	plan.Levels = []int{needsLevel}
	res, err := measure.Compare(ctx, plan, c)
	if err != nil {
		return err
	}
	n := needed{sample: res.Median(nameApart, needsLevel), written: written, conversations: float64(b.replays.Load() - conversations), perWrite: perWrite}
	for i, after := range memories(in) {
		n.grown = append(n.grown, after-before[i])
	}
	if n.records, n.kept, err = b.kept(ctx, in, float64(b.replays.Load())); err != nil {
		return err
	}
	b.printNeeds(n)
	return nil
}

func memories(in *instance) (out []int64) {
	for _, p := range in.processes {
		out = append(out, usage.Memory(p.PID()))
	}
	return out
}

// needed is what requests took.
type needed struct {
	sample        measure.Sample
	written       writes
	conversations float64
	grown         []int64 // memory of each process, in bytes
	records, kept float64 // of a conversation in JetStream, and their bytes
	perWrite      float64
}

// kept returns the records and bytes that a conversation has in JetStream.
func (b *bench) kept(ctx context.Context, in *instance, conversations float64) (records, bytes float64, err error) {
	conn, err := natskit.Connect(in.nats, "bench", b.log)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	streams := conn.JetStream().ListStreams(ctx)
	for info := range streams.Info() {
		records += float64(info.State.Msgs)
		bytes += float64(info.State.Bytes)
	}
	if err := streams.Err(); err != nil {
		return 0, 0, fmt.Errorf("read streams: %w", err)
	}
	return records / conversations, bytes / conversations, nil
}

// roomy is the share of a process's processors that a plan uses: the rest is for bursts,
// and for the others while one is replaced.
const roomy = 0.6

func (b *bench) printNeeds(n needed) {
	b.title("what requests of sessions take, default policy, four processes, %d in flight", needsLevel)
	t := &measure.Table{Head: []string{"process", "processor ms per request", "requests/s for each processor", "KiB of memory for each conversation"}}
	for i, name := range serviceNames {
		ms := n.sample.Figures[name]
		t.Add(name, fmt.Sprintf("%.3f", ms), measure.Grouped(1000/ms), fmt.Sprintf("%.1f", float64(n.grown[i])/1024/n.conversations))
	}
	b.print(t)
	fmt.Fprintf(b.out, "A request makes %.2f writes of %.0f bytes in all; a conversation leaves %.1f records of %.0f bytes in all.\n",
		n.written.messages, n.written.bytes, n.records, n.kept)
	b.title("processors for a rate of such requests, each used to %.0f %%", 100*roomy)
	plan := &measure.Table{Head: append([]string{"requests/s"}, append(append([]string(nil), serviceNames...), "writes/s", "MB/s to disk", "use of the busiest stream")...)}
	most, bucket := 0.0, ""
	for name, w := range n.written.buckets {
		if w.messages > most {
			most, bucket = w.messages, name
		}
	}
	for _, rate := range []float64{100, 1000, 5000, 20000} {
		row := []string{measure.Grouped(rate)}
		for _, name := range serviceNames {
			row = append(row, fmt.Sprintf("%.1f", rate*n.sample.Figures[name]/1000/roomy))
		}
		plan.Add(append(row, measure.Grouped(rate*n.written.messages), fmt.Sprintf("%.1f", rate*n.written.bytes/1e6),
			fmt.Sprintf("%s, %.0f %%", strings.TrimPrefix(bucket, "KV_"), 100*rate*most*n.perWrite))...)
	}
	b.print(plan)
}
