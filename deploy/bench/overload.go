package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/traffic"
)

const (
	// overloadTimes is how many times as many requests arrive as can be served.
	overloadTimes = 2
	// thinking is the least time between two requests of an arriving session.
	thinking = 100 * time.Millisecond
	// mostOpen bounds the sessions that are open at once, and so the connections.
	mostOpen = 4000
)

// crowded are the levels at which requests wait for each other.
var crowded = []int{64, 256}

// overload measures how many of the requests that are forwarded were judged when there is
// more to do than can be done.
func (b *bench) overload(ctx context.Context) (err error) {
	s, err := b.newStage(ctx)
	defer func() { err = errors.Join(err, s.end()) }()
	if err != nil {
		return err
	}
	t := &measure.Table{Head: []string{"default policy", "answers/s", "forwarded %", "judged % of those forwarded", "texts not compared %", "503 %", "p50", "p99"}}
	var targets []measure.Target
	for _, rival := range b.rivals() {
		for _, way := range ways {
			parts := ender{} // each way has the machine to itself
			in, err := way.start(b, ctx, unloop{binary: rival.binary}, s.upstream, &parts)
			var results []overloadResult
			if err == nil {
				results, err = b.overloaded(ctx, b.sessionContender(nameUnloop, in, s.all), &replay{b: b, in: in, sessions: s.all})
			}
			if err := errors.Join(err, parts.end()); err != nil {
				return err
			}
			for _, r := range results {
				r.name = way.name + ", " + r.name
				t.Add(r.row(rival.suffix)...)
				if rival.suffix == "" {
					targets = append(targets, r.target())
				}
			}
		}
	}
	b.title("sessions, more than can be served: %s", traffic.ShapeOf(s.all))
	b.print(t)
	measure.PrintTargets(b.out, targets...)
	return nil
}

// overloadResult is what became of requests.
type overloadResult struct {
	name                      string
	level                     int
	answers, p50, p99         float64 // a second; ms
	forwarded, unjudged, busy float64 // of all answers
	uncompared                float64
	unsent                    int
}

func (r overloadResult) judged() float64 { return 1 - r.unjudged/max(r.forwarded, 1e-9) }

func (r overloadResult) row(suffix string) []string {
	percent := func(share float64) string { return fmt.Sprintf("%.2f", 100*share) }
	name := r.name + suffix
	if r.unsent > 0 {
		name += fmt.Sprintf(" (%d sessions could not begin)", r.unsent)
	}
	return []string{
		name, measure.Grouped(r.answers), percent(r.forwarded), percent(r.judged()), percent(r.uncompared), percent(r.busy),
		fmt.Sprintf("%.0f ms", r.p50), fmt.Sprintf("%.0f ms", r.p99),
	}
}

func (r overloadResult) target() measure.Target {
	return measure.Target{Text: r.name + ": at least 99.9 % of the forwarded requests judged", Levels: []int{r.level}, Unit: " %",
		Figure: func(int) (float64, bool) { return 100 * r.judged(), r.judged() >= 0.999 }}
}

// overloaded drives one instance: at fixed numbers in flight, then with arrivals.
func (b *bench) overloaded(ctx context.Context, c measure.Contender, r *replay) ([]overloadResult, error) {
	plan := measure.Plan{Rounds: b.plan.Rounds, Calls: b.calls, Levels: crowded}
	res, err := measure.Compare(ctx, plan, c)
	if err != nil {
		return nil, err
	}
	var out []overloadResult
	for _, level := range crowded {
		m := res.Median(c.Name, level)
		busy, unjudged := res.Mean(c.Name, level, figureBusy), res.Mean(c.Name, level, figureUnjudged)
		out = append(out, overloadResult{
			name: fmt.Sprintf("%d in flight", level), level: level, answers: m.PerSecond, p50: p50(m), p99: m.P99.Seconds() * 1000,
			forwarded: 1 - busy - res.Mean(c.Name, level, figureStopped), unjudged: unjudged, busy: busy, uncompared: res.Mean(c.Name, level, figureUncompared),
		})
	}
	arrived, err := r.arrivals(ctx, overloadTimes*res.Median(c.Name, crowded[0]).PerSecond, b.arriving)
	return append(out, arrived), err
}

var errUnanswered = errors.New("no answer came in time")

// arrivals begins sessions at such a pace that the given number of requests arrive in a
// second, whether or not they are answered.
func (r *replay) arrivals(ctx context.Context, perSecond float64, length time.Duration) (overloadResult, error) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	shape := traffic.ShapeOf(r.sessions)
	v := visits{replay: r, free: make(chan struct{}, mostOpen)}
	v.begin(ctx, time.Duration(float64(time.Second)*float64(shape.Requests)/float64(shape.Sessions)/perSecond))
	v.open.Wait()
	if v.broken != nil || len(v.latencies) == 0 {
		return overloadResult{}, fmt.Errorf("send sessions as they arrive: %w", cmp.Or(v.broken, errUnanswered))
	}
	slices.Sort(v.latencies)
	all := float64(len(v.latencies))
	return overloadResult{
		name: fmt.Sprintf("%s requests/s arrive", measure.Grouped(perSecond)), level: int(perSecond), answers: all / length.Seconds(),
		p50: v.latencies[len(v.latencies)/2].Seconds() * 1000, p99: v.latencies[len(v.latencies)*99/100].Seconds() * 1000,
		forwarded: float64(r.forwarded.Load()) / all, unjudged: float64(r.unjudged.Load()) / all, busy: float64(r.busy.Load()) / all,
		uncompared: float64(r.uncompared.Load()) / all, unsent: v.unsent,
	}, nil
}

// visits are sessions that arrive by themselves.
type visits struct {
	*replay
	free   chan struct{} // has room for another session
	unsent int           // sessions for which there was no room
	open   sync.WaitGroup

	mu        sync.Mutex
	latencies []time.Duration
	broken    error
}

// begin begins a session after each pause until the context ends.
func (v *visits) begin(ctx context.Context, pause time.Duration) {
	began := time.Now()
	tick := time.NewTicker(max(pause, time.Millisecond))
	defer tick.Stop()
	for n := 1; ctx.Err() == nil; {
		for ; time.Since(began) >= time.Duration(n)*pause; n++ {
			v.arrive(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (v *visits) arrive(ctx context.Context) {
	select {
	case v.free <- struct{}{}:
	default:
		v.unsent++
		return
	}
	v.open.Go(func() {
		took, err := v.visit(ctx)
		<-v.free
		v.mu.Lock()
		defer v.mu.Unlock()
		v.latencies, v.broken = append(v.latencies, took...), cmp.Or(v.broken, err)
	})
}

// visit sends one session, until the time is over, and returns the times of its answers.
func (r *replay) visit(ctx context.Context) (took []time.Duration, err error) {
	conn, err := dial(r.in.url)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	a := &agent{replay: r, conn: conn}
	a.begin()
	think := time.NewTimer(0)
	defer think.Stop()
	for len(a.left) > 0 {
		select {
		case <-think.C:
		case <-ctx.Done():
			return took, nil
		}
		think.Reset(thinking)
		began := time.Now()
		got, err := a.send(ctx)
		if errors.Is(err, os.ErrDeadlineExceeded) { // the time was over before the answer
			return took, nil
		}
		if err != nil {
			return took, err
		}
		took = append(took, time.Since(began))
		if err := a.add(got); err != nil {
			return took, err
		}
	}
	return took, nil
}
