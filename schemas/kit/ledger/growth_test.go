package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/partition"
)

// tester is a test, or one run of a property.
type tester interface {
	Context() context.Context
	Cleanup(f func())
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// growing is a bucket of counters that is spread, with two processes that write in it.
type growing struct {
	t       tester
	s       *natstest.Server
	growth  natskit.Growth
	phase   partition.Phase
	conns   [2]*natskit.Conn
	ledgers [2]*Ledger[tally, *tally]
	// faults are the requests of moves that fail, by their numbers; odd ones after the
	// server has done what they ask for.
	faults map[int]bool
	asked  atomic.Int64
	want   map[string]int
}

func startGrowing(t tester, s *natstest.Server, js jetstream.JetStream, partitions int) *growing {
	g := &growing{t: t, s: s, want: map[string]int{}, faults: map[int]bool{}}
	for name := range js.StreamNames(t.Context()).Name() {
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	g.growth = natskit.Growth{JS: js, Layout: natskit.Layout{Memory: true, Partitions: partitions}.Of([]string{"KV_" + schemas.BucketCounters})}
	if _, err := g.growth.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range g.conns {
		conn, err := natskit.Connect(s.URL(), "growing", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		g.conns[i] = conn
		g.restart(i)
		g.learn(i)
	}
	return g
}

// restart replaces a process by one that remembers nothing but its connection.
func (g *growing) restart(i int) {
	g.ledgers[i] = New[tally](g.conns[i], schemas.BucketCounters, nil)
	ask := g.ledgers[i].mover.Ask
	g.ledgers[i].mover.Ask = func(ctx context.Context, msg *nats.Msg) ([]byte, error) {
		n := int(g.asked.Add(1))
		if g.faults[n] && n%2 == 0 {
			return nil, errors.New("the process died before it asked")
		}
		answer, err := ask(ctx, msg)
		if g.faults[n] {
			return nil, errors.New("the process died before it had the answer")
		}
		return answer, err
	}
}

func (g *growing) learn(i int) {
	if err := g.conns[i].AskPartitions(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
}

// next is the next phase of a growth, or another growth.
func (g *growing) next() {
	ctx, err := g.t.Context(), error(nil)
	switch g.phase {
	case partition.Settled:
		if g.growth.Layout.Partitions == partition.Most {
			return
		}
		g.growth.Layout.Partitions *= 2
		if _, err = natskit.Prepare(ctx, g.growth.JS, g.growth.Layout); err == nil {
			_, err = g.growth.Begin(ctx)
		}
		g.phase = partition.Sealing
	case partition.Sealing: // all have learned of it, as their leases have ended
		for i := range g.conns {
			g.learn(i)
		}
		_, err = g.growth.Proceed(ctx, partition.Moving)
		g.phase = partition.Moving
	case partition.Moving:
		var s partition.Scheme
		if s, _, err = natskit.ReadPartitions(ctx, g.growth.JS); err == nil {
			_, err = g.growth.Sweep(ctx, s)
		}
		if err == nil {
			_, err = g.growth.Proceed(ctx, partition.Settled)
		}
		g.phase = partition.Settled
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *growing) add(i int, key string) {
	err := g.ledgers[i].Apply(g.t.Context(), key, add)
	switch {
	case err == nil:
		g.want[key]++
		g.single(key)
	case len(g.faults) == 0 || !errors.Is(err, ErrUnavailable):
		g.t.Fatalf("add to %s: %v", key, err)
	}
}

// single checks that one place alone has a key's record after an update: another copy could
// come back when that one expires.
func (g *growing) single(key string) {
	var places []string
	for _, name := range partition.Names(schemas.BucketCounters, g.growth.Layout.Partitions) {
		stream, err := g.growth.JS.Stream(g.t.Context(), "KV_"+name)
		if err != nil {
			g.t.Fatal(err)
		}
		msg, err := stream.GetLastMsgForSubject(g.t.Context(), "$KV."+name+"."+key)
		if err == nil && len(msg.Data) > 0 {
			places = append(places, name)
		}
	}
	if len(places) != 1 {
		g.t.Fatalf("%s is in %v", key, places)
	}
}

func (g *growing) check(i int) {
	for key, want := range g.want {
		got, err := g.ledgers[i].Read(g.t.Context(), key)
		if errors.Is(err, ErrUnavailable) && len(g.faults) > 0 {
			continue
		}
		if err != nil || got.N != want {
			g.t.Fatalf("%s holds %d, %v; want %d", key, got.N, err, want)
		}
	}
}

// Whatever two processes know of the growth, and wherever they die while they move a record,
// each update counts once.
func TestCountsAreExactWhilePartitionsGrow(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	js := s.JetStream()
	rapid.Check(t, func(rt *rapid.T) {
		g := startGrowing(rt, s, js, 1<<rapid.IntRange(0, 2).Draw(rt, "partitions"))
		for _, n := range rapid.SliceOfN(rapid.IntRange(1, 60), 0, 6).Draw(rt, "faults") {
			g.faults[n] = true
		}
		keys := rapid.IntRange(1, 5).Draw(rt, "keys")
		for range rapid.IntRange(10, 30).Draw(rt, "acts") {
			i := rapid.IntRange(0, 1).Draw(rt, "process")
			switch rapid.IntRange(0, 9).Draw(rt, "act") {
			case 0:
				g.next()
			case 1:
				g.learn(i)
			case 2:
				g.restart(i)
			case 3:
				g.check(i)
			default:
				g.add(i, fmt.Sprint("live.", rapid.IntRange(0, keys-1).Draw(rt, "key")))
			}
		}
		clear(g.faults)
		for i := range g.ledgers {
			g.check(i)
		}
		for range 3 { // all ends well, if nobody knows more than before
			g.next()
		}
		for i := range g.ledgers {
			g.restart(i)
			g.learn(i)
			g.check(i)
		}
	})
}

// Processes that write at the same time, and learn of the growth one after the other.
func TestConcurrentUpdatesAreExactWhilePartitionsGrow(t *testing.T) {
	t.Parallel()
	const keys, each = 40, 30
	s := natstest.StartBare(t)
	g := startGrowing(t, s, s.JetStream(), 1)
	var writing sync.WaitGroup
	half := make(chan struct{}, 2*keys)
	for n := range 2 * keys {
		writing.Go(func() {
			for m := range each {
				if m == each/2 {
					half <- struct{}{}
				}
				err := ErrContended // what is refused was not counted
				for errors.Is(err, ErrContended) {
					err = g.ledgers[n%2].Apply(t.Context(), fmt.Sprint("live.", n/2), add)
				}
				if err != nil {
					t.Errorf("apply: %v", err)
				}
			}
		})
	}
	for range keys {
		<-half
	}
	g.next()
	g.learn(1) // and the other one finds a seal
	for range 5 {
		g.next()
	}
	writing.Wait()
	for i := range g.ledgers {
		for n := range keys {
			if got, err := g.ledgers[i].Read(t.Context(), fmt.Sprint("live.", n)); err != nil || got.N != 2*each {
				t.Errorf("key %d holds %d, %v; want %d", n, got.N, err, 2*each)
			}
		}
	}
	if scheme := g.conns[0].Partitions(); scheme.Count != 4 {
		t.Errorf("the process knows of %d partitions, want 4", scheme.Count)
	}
}
