package chaos

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/pause"
)

const (
	// every is the pause between two requests of the load.
	every = 25 * time.Millisecond
	// passes is the number of identical prompts that the policy lets through.
	passes = 5
	// maxAnswer bounds the bytes that are read of an answer.
	maxAnswer = 64 << 10
)

var errStatus = errors.New("unexpected status")

// during runs the load from the beginning of a fault until loops are stopped again after
// its end.
func (c *cluster) during(ctx context.Context, f fault, hold time.Duration) (result, error) {
	r := &tally{result: result{name: f.name, slower: f.slower, decided: f.decided}, loops: map[string]bool{}}
	loading, stop := context.WithCancel(ctx)
	defer stop()
	var load sync.WaitGroup
	load.Go(func() { c.load(loading, r, cmp.Or(f.every, every), f.large) })
	load.Go(func() { c.noise(loading, r) })
	var counting, comparing error
	if f.elects {
		load.Go(func() { r.elected, counting = c.unwritable(loading, schemas.BucketCounters) })
		load.Go(func() { r.unstored, comparing = c.unwritable(loading, schemas.BucketVectors) })
	}
	guarded, err := c.through(ctx, f, hold, r)
	stop()
	load.Wait()
	if err = errors.Join(err, counting, comparing); err != nil {
		return r.result, fmt.Errorf("%s: %w", f.name, err)
	}
	r.guarded, r.exact = guarded, c.exactAfter(ctx, r)
	reported := slices.Collect(maps.Keys(r.loops))
	r.lost, err = c.unannounced(ctx, r)
	if c.hook != nil {
		ctx, cancel := context.WithTimeout(ctx, announcedWithin)
		defer cancel()
		r.untold = c.hook.missing(ctx, reported)
	}
	return r.result, err
}

// through begins and ends a fault, and returns the time from its end until a new loop was
// stopped.
func (c *cluster) through(ctx context.Context, f fault, hold time.Duration, r *tally) (guarded time.Duration, err error) {
	ended := time.Now()
	if f.begin != nil {
		if err := f.begin(ctx, c); err != nil {
			return 0, err
		}
	}
	switch {
	case f.heals:
		var writing sync.WaitGroup
		writing.Go(func() { r.elected, err = c.writable(ctx, ended) })
		guarded = c.untilGuarded(ctx, ended, r)
		if writing.Wait(); err != nil {
			return 0, fmt.Errorf("write to the counters: %w", err)
		}
	case f.end == nil:
		guarded = c.untilGuarded(ctx, time.Now(), r)
	}
	if err := pause.For(ctx, hold); err != nil {
		return 0, err
	}
	if f.end == nil {
		return guarded, nil
	}
	began := time.Now()
	if err := f.end(ctx, c); err != nil {
		return 0, fmt.Errorf("end: %w", err)
	}
	return max(guarded, c.untilGuarded(ctx, began, r)), nil
}

// tally collects the results of many clients.
type tally struct {
	mu sync.Mutex
	result
	// loops are the ids of loops that were reported to clients.
	loops map[string]bool
}

// load sends distinct prompts, and every fourth time one that loops, to the
// gateways that are ready. Every eighth has large bytes.
func (c *cluster) load(ctx context.Context, r *tally, every time.Duration, large int) {
	var clients sync.WaitGroup
	defer clients.Wait()
	again := fmt.Sprint("the same prompt again, number ", c.next(), " of fault ", r.name)
	for n := 0; pause.For(ctx, every) == nil; n++ {
		text := fmt.Sprint("distinct prompt ", c.next(), " of ", r.name)
		switch {
		case n%4 == 0:
			text = again
		case n%8 == 1 && large > 0:
			text += strings.Repeat(" of many words", large/len(" of many words"))
		}
		clients.Go(func() { r.note(c.send(context.WithoutCancel(ctx), n, text), n%4 == 0) })
	}
}

// noise measures the delay of the machine: the time of requests that wait for nothing.
func (c *cluster) noise(ctx context.Context, r *tally) {
	for n := 0; pause.For(ctx, every) == nil; n++ {
		places := append(c.balancer.healthz(), c.upstream.URL)
		began := time.Now()
		res, err := c.client.Get(places[n%len(places)])
		if err != nil {
			continue // a gateway that restarts
		}
		_, _ = io.Copy(io.Discard, res.Body) // only the time counts
		_ = res.Body.Close()
		r.mu.Lock()
		r.noise = max(r.noise, time.Since(began))
		r.mu.Unlock()
	}
}

// note counts the answer to a prompt, which may be one that loops.
func (r *tally) note(a answer, loops bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	if loops {
		r.slowestLoop = max(r.slowestLoop, a.took)
	} else {
		r.slowest = max(r.slowest, a.took)
	}
	if a.err != nil {
		r.failed++
		r.example = a.err
	}
	if a.degraded {
		r.undecided++
	}
	if a.uncompared {
		r.uncompared++
	}
	if loops && a.err == nil && !a.rejected {
		r.passed++
	}
	if !loops && a.rejected {
		r.wronged++
	}
	r.report(a)
}

// report keeps the id of a loop that was reported to a client; the lock is held.
func (r *tally) report(a answer) {
	if a.loop != "" {
		r.loops[a.loop] = true
	}
}

type answer struct {
	took               time.Duration
	rejected, degraded bool
	// uncompared says that there was a decision without a comparison of texts.
	uncompared bool
	loop       string
	err        error
}

// send sends a prompt through the gateways in turn, by the balancer.
func (c *cluster) send(ctx context.Context, n int, text string) answer {
	return c.sendTo(ctx, c.balancer.pick(n), text)
}

// sendTo sends a prompt to a gateway.
func (c *cluster) sendTo(ctx context.Context, url, text string) answer {
	return c.sendAs(ctx, url, "sk-chaos", text)
}

// sendAs sends a prompt with a key.
func (c *cluster) sendAs(ctx context.Context, url, key, text string) answer {
	body := fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":%s}]}`, strconv.Quote(text))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Authorization", "Bearer "+key)
	began := time.Now()
	res, err := c.client.Do(req)
	if err != nil {
		return answer{took: time.Since(began), err: err}
	}
	defer func() { _ = res.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	why := res.Header.Get("X-Loop-Degraded")
	a := answer{took: time.Since(began), err: err, rejected: res.StatusCode == http.StatusTooManyRequests, degraded: undecided(why), uncompared: why == noComparison}
	if err == nil && res.StatusCode != http.StatusOK && !a.rejected {
		a.err = fmt.Errorf("%w: %d %s", errStatus, res.StatusCode, read(said).Error.Code)
	}
	if a.rejected {
		a.loop = read(said).Detail.LoopID
	}
	return a
}

// refusal is what an error of the gateway says.
type refusal struct {
	Error struct {
		Code string `json:"code"`
	} `json:"error"`
	Detail struct {
		LoopID string `json:"loop_id"`
	} `json:"detail"`
}

// read returns the error in an answer, which has none if the error is not the gateway's.
func read(body []byte) refusal {
	var r refusal
	_ = json.Unmarshal(body, &r)
	return r
}

var numbering sync.Mutex

// next numbers prompts.
func (c *cluster) next() int {
	numbering.Lock()
	defer numbering.Unlock()
	c.said++
	return c.said
}

// untilGuarded returns the time since the given one until a new loop was stopped, with a
// decision about each of its requests.
func (c *cluster) untilGuarded(ctx context.Context, since time.Time, r *tally) time.Duration {
	for time.Since(since) < startWithin+guardedWithin && ctx.Err() == nil {
		if stopped, decided := c.exact(ctx, r); stopped && decided {
			break
		}
	}
	return time.Since(since)
}

// exact reports whether a new loop over both gateways is stopped at the right request,
// and whether there was a decision about each request.
func (c *cluster) exact(ctx context.Context, r *tally) (stopped, decided bool) {
	n := c.next() // of a caller of its own, whose other prompts change nothing
	for i := range passes + 2 {
		a := c.sendAs(ctx, c.balancer.pick(i), fmt.Sprint("sk-loop-", n), fmt.Sprint("a new loop ", n))
		r.mu.Lock()
		r.report(a)
		r.mu.Unlock()
		switch {
		case a.degraded:
			return false, false
		case a.err != nil || a.rejected != (i >= passes):
			return false, true
		}
	}
	return true, true
}

// exactAfter is exact after the end of a fault. On a busy machine some requests pass
// without a decision; another loop is tried then.
func (c *cluster) exactAfter(ctx context.Context, r *tally) bool {
	const loops = 20
	for range loops {
		if stopped, decided := c.exact(ctx, r); decided {
			return stopped
		}
	}
	return false
}

// noComparison is the header of a response whose text was compared with no other: always,
// where the cluster has no embedding worker.
const noComparison = "semantic"

// undecided reports whether there was no decision, by the header of a response.
func undecided(why string) bool { return why != "" && why != noComparison }
