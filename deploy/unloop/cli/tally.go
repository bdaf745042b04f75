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

// writeDelay is longer than gateways and detectors take to store the last hits of a loop: 250 ms
// and 500 ms.
const writeDelay = time.Second

// maxWaits bounds the number of waits of writeDelay.
const maxWaits = 5

// tally counts what incidents save while a command runs. It follows them, because they
// are removed some time after their end.
type tally struct {
	js    jetstream.JetStream
	watch jetstream.KeyWatcher

	mu sync.Mutex
	// before are the savings at the beginning.
	before map[string]event.Saved
	loops  map[string]openloop.Record
}

// follow begins a tally on a connection of its own.
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
		_ = pause.For(ctx, writeDelay) // hits from before do not count
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

// see keeps an incident that changed since the beginning.
func (t *tally) see(l openloop.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.before[l.LoopID]
	newer := l.Saved.Requests >= t.loops[l.LoopID].Saved.Requests
	if l.LoopID != "" && newer && (!known || before.Requests != l.Saved.Requests) {
		t.loops[l.LoopID] = l
	}
}

// end closes the connection and returns the incidents that changed, the oldest first,
// each with its savings since the beginning. It waits until the incidents have the requests
// that were stopped: on a busy machine they are stored late.
func (t *tally) end(ctx context.Context, stopped int) ([]openloop.Record, error) {
	defer t.close()
	found, err := t.catchUp(ctx)
	for waits := 0; err == nil && waits < maxWaits && (waits == 0 && found > 0 || t.saved() < stopped); waits++ {
		_ = pause.For(ctx, writeDelay)
		_, err = t.catchUp(ctx)
	}
	return t.meanwhile(), err
}

// saved returns how many requests all incidents saved since the beginning.
func (t *tally) saved() (requests int) {
	for _, l := range t.meanwhile() {
		requests += l.Saved.Requests
	}
	return requests
}

// meanwhile lists the incidents with their savings since the beginning.
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

// close ends a tally; a nil one was never begun.
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

// report prints what became of a command's requests, and the loops in them.
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

// countWords says what became of requests.
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
