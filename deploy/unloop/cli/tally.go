package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
)

// writeDelay is more than the time after which gateways and detectors store the last
// hits of a loop: 250 ms and 500 ms.
const writeDelay = time.Second

// awaitWrites waits until the last hits are stored.
func awaitWrites(ctx context.Context) {
	timer := time.NewTimer(writeDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// tally counts what incidents save while a command runs. It follows them, because they
// are removed some time after their end.
type tally struct {
	js    jetstream.JetStream
	watch jetstream.KeyWatcher

	mu sync.Mutex
	// before are the savings at the beginning.
	before map[string]event.Saved
	loops  map[string]event.Incident
}

// follow begins a tally on a connection of its own.
func follow(ctx context.Context, connect func() (jetstream.JetStream, error)) (*tally, error) {
	js, err := connect()
	if err != nil {
		return nil, err
	}
	t := &tally{js: js, before: map[string]event.Saved{}, loops: map[string]event.Incident{}}
	if err := t.begin(ctx); err != nil {
		js.Conn().Close()
		return nil, err
	}
	return t, nil
}

func (t *tally) begin(ctx context.Context) error {
	open, err := storedLoops(ctx, t.js)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(open, func(l event.Incident) bool { return time.Since(l.LastSeen) < writeDelay }) {
		awaitWrites(ctx) // hits from before do not count
		if open, err = storedLoops(ctx, t.js); err != nil {
			return err
		}
	}
	for _, l := range open {
		t.before[l.LoopID] = l.Saved
	}
	kv, err := t.js.KeyValue(ctx, schemas.BucketIncidents)
	if err != nil {
		return explain(fmt.Errorf("read open loops: %w", err))
	}
	if t.watch, err = kv.WatchAll(context.WithoutCancel(ctx), jetstream.IgnoreDeletes()); err != nil {
		return fmt.Errorf("follow open loops: %w", err)
	}
	go func() {
		for entry := range t.watch.Updates() {
			var l event.Incident
			if entry != nil && json.Unmarshal(entry.Value(), &l) == nil {
				t.see(l)
			}
		}
	}()
	return nil
}

// see keeps an incident that changed since the beginning.
func (t *tally) see(l event.Incident) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.before[l.LoopID]
	newer := l.Saved.Requests >= t.loops[l.LoopID].Saved.Requests
	if l.LoopID != "" && newer && (!known || before.Requests != l.Saved.Requests) {
		t.loops[l.LoopID] = l
	}
}

// end closes the connection and returns the incidents that changed, the oldest first,
// each with its savings since the beginning.
func (t *tally) end(ctx context.Context) ([]event.Incident, error) {
	defer t.js.Conn().Close()
	defer func() { _ = t.watch.Stop() }() // it ends with the connection anyway
	found, err := t.catchUp(ctx)
	if err == nil && found > 0 {
		awaitWrites(ctx)
		_, err = t.catchUp(ctx)
	}
	return t.meanwhile(), err
}

// meanwhile lists the incidents with their savings since the beginning.
func (t *tally) meanwhile() []event.Incident {
	t.mu.Lock()
	defer t.mu.Unlock()
	loops := make([]event.Incident, 0, len(t.loops))
	for id, l := range t.loops {
		before := t.before[id]
		l.Saved.Requests -= before.Requests
		l.Saved.InputTokens -= before.InputTokens
		if l.Saved.USD != nil && before.USD != nil {
			usd := *l.Saved.USD - *before.USD
			l.Saved.USD = &usd
		}
		loops = append(loops, l)
	}
	slices.SortFunc(loops, func(a, b event.Incident) int { return a.FirstSeen.Compare(b.FirstSeen) })
	return loops
}

// catchUp reads the stored incidents, of which the watch may be late.
func (t *tally) catchUp(ctx context.Context) (found int, err error) {
	open, err := storedLoops(ctx, t.js)
	for _, l := range open {
		t.see(l)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.loops), err
}

// report prints the tally.
func report(ctx context.Context, g *guard, out *printer) {
	if g.tallyErr != nil {
		out.printf("unloop: what was stopped can't be told: %v\n", g.tallyErr)
		return
	}
	loops, err := g.tally.end(ctx)
	if err != nil {
		out.printf("unloop: what was stopped can't be told in full: %v\n", err)
	}
	printTally(out, loops)
}

func printTally(out *printer, loops []event.Incident) {
	var stopped, requests, tokens int
	var usd float64
	for _, l := range loops {
		if l.Saved.Requests > 0 {
			stopped++
		}
		requests += l.Saved.Requests
		tokens += l.Saved.InputTokens
		if l.Saved.USD != nil {
			usd += *l.Saved.USD
		}
	}
	switch {
	case len(loops) == 0:
		out.printf("unloop: no loop was found.\n")
		return
	case stopped == 0:
		out.printf("unloop: %s found, and no request stopped.\n", plural(len(loops), "loop"))
	default:
		out.printf("unloop: %s stopped: %s and about %s saved%s.\n", plural(stopped, "loop"),
			plural(requests, "request"), plural(tokens, "input token"), dollars(usd))
	}
	for _, l := range loops {
		out.printf("unloop:   %s  %s, policy %s, detector %s, %d hits, %s stopped\n",
			l.LoopID, verb(l.Data), l.Policy, l.Detector, l.HitCount, plural(l.Saved.Requests, "request"))
	}
}

func dollars(usd float64) string {
	if usd <= 0 {
		return ""
	}
	return fmt.Sprintf(", $%.2f", usd)
}
