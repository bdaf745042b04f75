package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/meter"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/pause"
	"github.com/unloop/unloop/schemas/money"
	"github.com/unloop/unloop/schemas/openloop"
)

// writeDelay is longer than gateways (250 ms) and detectors (500 ms) take to store the last
// hits of a loop.
const writeDelay = time.Second

// maxWaits bounds the number of times to wait for writeDelay.
const maxWaits = 5

// tally collects the incidents that change while a command runs, and their savings. It watches
// them, because an incident is removed some time after its end.
type tally struct {
	js    jetstream.JetStream
	watch jetstream.KeyWatcher

	mu sync.Mutex
	// before has the savings at the start.
	before map[string]event.Saved
	loops  map[string]openloop.Record
}

// follow starts a tally on a connection of its own.
func follow(ctx context.Context, connect func() (jetstream.JetStream, error)) (*tally, error) {
	js, err := connect()
	if err != nil {
		return nil, err
	}
	t := &tally{js: js, before: map[string]event.Saved{}, loops: map[string]openloop.Record{}}
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
	if slices.ContainsFunc(open, func(l openloop.Record) bool { return time.Since(l.LastSeen) < writeDelay }) {
		_ = pause.For(ctx, writeDelay) // let earlier hits be stored, which do not count
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
			var l openloop.Record
			if entry != nil && l.Parse(entry.Value()) == nil {
				t.see(l)
			}
		}
	}()
	return nil
}

// see keeps an incident that has changed since the start.
func (t *tally) see(l openloop.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.before[l.LoopID]
	newer := l.Saved.Requests >= t.loops[l.LoopID].Saved.Requests
	if l.LoopID != "" && newer && (!known || before.Requests != l.Saved.Requests) {
		t.loops[l.LoopID] = l
	}
}

// end closes the connection and returns the changed incidents, oldest first, with their savings
// since the start. It waits until they account for the stopped requests, which a busy machine
// stores late.
func (t *tally) end(ctx context.Context, stopped int) ([]openloop.Record, error) {
	defer t.close()
	found, err := t.catchUp(ctx)
	for waits := 0; err == nil && waits < maxWaits && (waits == 0 && found > 0 || t.saved() < stopped); waits++ {
		_ = pause.For(ctx, writeDelay)
		_, err = t.catchUp(ctx)
	}
	return t.meanwhile(), err
}

// saved returns the number of requests that all incidents saved since the start.
func (t *tally) saved() (requests int) {
	for _, l := range t.meanwhile() {
		requests += l.Saved.Requests
	}
	return requests
}

// meanwhile returns the changed incidents with their savings since the start.
func (t *tally) meanwhile() []openloop.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	loops := make([]openloop.Record, 0, len(t.loops))
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
	slices.SortFunc(loops, func(a, b openloop.Record) int { return a.FirstSeen.Compare(b.FirstSeen) })
	return loops
}

// close ends a tally, which may be nil.
func (t *tally) close() {
	if t != nil {
		_ = t.watch.Stop() // it ends with the connection anyway
		t.js.Conn().Close()
	}
}

// catchUp reads the stored incidents, because the watch may be behind.
func (t *tally) catchUp(ctx context.Context) (found int, err error) {
	open, err := storedLoops(ctx, t.js)
	for _, l := range open {
		t.see(l)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.loops), err
}

// report prints the outcomes of a command's requests, and the loops in them.
func report(ctx context.Context, g *guard, command []string, out *printer) {
	counts := g.meter.Counts()
	if counts.Requests == 0 {
		g.tally.close()
		out.printf("unloop: no request came through Unloop, so nothing was watched: %s.\n", advice(command, g.url, g.own))
		return
	}
	if g.tallyErr != nil {
		out.printf("unloop: %s.\nunloop: the loops are unknown: %v\n", countWords(counts), g.tallyErr)
		return
	}
	loops, err := g.tally.end(ctx, counts.Stopped[meter.ByLoop])
	if err != nil {
		out.printf("unloop: some loops may be missing: %v\n", err)
	}
	if len(loops) == 0 && len(counts.Stopped) == 0 {
		out.printf("unloop: %s, and no loop was found.\n", countWords(counts))
		return
	}
	out.printf("unloop: %s.\n", countWords(counts))
	printTally(out, loops)
}

// countWords describes the outcomes of requests.
func countWords(c meter.Counts) string {
	words := plural(c.Requests, "request") + " came through"
	stopped := 0
	var why, failed []string
	for _, by := range []struct{ reason, words string }{
		{meter.ByLoop, "in a loop"}, {meter.ByOperator, "by an operator's block"}, {meter.ByRule, "by a policy's rule"}, {meter.Unchecked, "because no check could be made"},
	} {
		if n := c.Stopped[by.reason]; n > 0 {
			stopped += n
			why = append(why, strconv.Itoa(n)+" "+by.words)
		}
	}
	for _, status := range slices.Sorted(maps.Keys(c.Failed)) {
		failed = append(failed, plural(c.Failed[status], "answer")+" with status "+strconv.Itoa(status))
	}
	if c.Unanswered > 0 {
		failed = append(failed, plural(c.Unanswered, "request")+" without an answer")
	}
	if stopped > 0 {
		words += ": " + strconv.Itoa(c.Requests-stopped) + " forwarded, " + strconv.Itoa(stopped) + " stopped (" + strings.Join(why, ", ") + ")"
	}
	if len(failed) > 0 {
		words += "; " + strings.Join(failed, ", ")
	}
	return words
}

func printTally(out *printer, loops []openloop.Record) {
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
		return
	case stopped == 0:
		out.printf("unloop: %s found, and no request stopped.\n", plural(len(loops), "loop"))
	default:
		out.printf("unloop: %s stopped: %s and about %s saved%s.\n", plural(stopped, "loop"),
			plural(requests, "request"), plural(tokens, "input token"), dollars(usd))
	}
	for _, l := range loops {
		out.printf("unloop:   loop %s: %s; %s, policy %s, detector %s, %s stopped\n",
			l.LoopID, l.Data.Facts().Text(), verb(l.Data), l.Policy, l.Detector, plural(l.Saved.Requests, "request"))
	}
}

func dollars(usd float64) string {
	if usd <= 0 {
		return ""
	}
	return ", " + money.USD(usd)
}
