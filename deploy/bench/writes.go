package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

const (
	// writesLevel and mostWritesCalls are the requests in flight and in all while what is
	// written is counted, apart from the samples: whoever listens costs time.
	writesLevel     = 8
	mostWritesCalls = 1000
)

// writes are what requests write to JetStream, for each request.
type writes struct {
	bytes, messages float64
	buckets         map[string]bucketWrites
	// asked are requests to JetStream's API, such as reads.
	asked map[string]bucketWrites
}

type bucketWrites struct{ bytes, messages float64 }

func (w writes) String() string {
	return fmt.Sprintf("%s (%.2f)", measure.Grouped(w.bytes), w.messages)
}

// byBucket lists the buckets and streams, and requests to the API.
func (w writes) byBucket() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(w.buckets)) {
		out = append(out, fmt.Sprintf("%s %.0f bytes in %.2f", name, w.buckets[name].bytes, w.buckets[name].messages))
	}
	for _, name := range slices.Sorted(maps.Keys(w.asked)) {
		out = append(out, fmt.Sprintf("%s %.2f", name, w.asked[name].messages))
	}
	return strings.Join(out, ", ")
}

// writesOf drives a contender and counts what its streams are sent: subjects, headers and
// data.
func (b *bench) writesOf(ctx context.Context, in *instance, c measure.Contender) (w writes, err error) {
	conn, err := natskit.Connect(in.nats, "bench", b.log)
	if err != nil {
		return w, err
	}
	defer conn.Close()
	tap := &tap{buckets: map[string]bucketWrites{}, asked: map[string]bucketWrites{}}
	if err := tap.listen(ctx, conn); err != nil {
		return w, err
	}
	calls := min(mostWritesCalls, b.calls)
	plan := measure.Plan{Rounds: 0, Calls: calls, Levels: []int{writesLevel}}
	if _, err := measure.Compare(ctx, plan, c); err != nil {
		return w, err
	}
	if err := conn.NATS().FlushTimeout(patience); err != nil {
		return w, fmt.Errorf("count writes: %w", err)
	}
	return tap.per(float64(calls)), nil
}

// tap counts messages to streams.
type tap struct {
	mu      sync.Mutex
	buckets map[string]bucketWrites
	asked   map[string]bucketWrites
}

// apiPrefix begins the subjects of JetStream's API.
const apiPrefix = "$JS.API."

// listen subscribes to the subjects of all streams and of JetStream's API.
func (t *tap) listen(ctx context.Context, conn *natskit.Conn) error {
	nc, streams := conn.NATS(), conn.JetStream().ListStreams(ctx)
	for info := range streams.Info() {
		name := strings.TrimPrefix(info.Config.Name, "KV_")
		for _, subject := range info.Config.Subjects {
			if _, err := nc.Subscribe(subject, func(m *nats.Msg) { t.count(t.buckets, name, m) }); err != nil {
				return fmt.Errorf("count writes: %w", err)
			}
		}
	}
	if err := streams.Err(); err != nil {
		return fmt.Errorf("count writes: %w", err)
	}
	if _, err := nc.Subscribe(apiPrefix+">", func(m *nats.Msg) { t.count(t.asked, verb(m.Subject), m) }); err != nil {
		return fmt.Errorf("count requests to JetStream: %w", err)
	}
	return nc.FlushTimeout(patience)
}

// verb returns the name of a request to the API and of the bucket that it is for.
func verb(subject string) string {
	request, key, ok := strings.Cut(strings.TrimPrefix(subject, apiPrefix), "KV_")
	if !ok {
		return request
	}
	bucket, _, _ := strings.Cut(key, ".")
	return request + bucket
}

func (t *tap) count(sums map[string]bucketWrites, name string, m *nats.Msg) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := sums[name]
	sum.bytes += float64(m.Size() - len(m.Reply))
	sum.messages++
	sums[name] = sum
}

// per returns the writes of one of n requests.
func (t *tap) per(n float64) writes {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := writes{buckets: each(t.buckets, n), asked: each(t.asked, n)}
	for _, sum := range w.buckets {
		w.bytes += sum.bytes
		w.messages += sum.messages
	}
	return w
}

func each(sums map[string]bucketWrites, n float64) map[string]bucketWrites {
	out := map[string]bucketWrites{}
	for name, sum := range sums {
		out[name] = bucketWrites{sum.bytes / n, sum.messages / n}
	}
	return out
}
