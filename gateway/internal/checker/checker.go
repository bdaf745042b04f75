// Package checker asks the detectors about requests, in batches and within a
// budget, and remembers which blocks stand, so that a blocked loop costs no
// round trip.
//
// It counts nothing itself: what it answers from memory it reports to the
// detectors, and what it remembers it was told.
package checker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	// maxBatch is how many checks share a message.
	maxBatch = 64
	// maxSenders is how many messages are on their way at once; what comes
	// meanwhile shares the next one.
	maxSenders = 8
	// maxWaiting bounds the checks that wait for a sender.
	maxWaiting = 8192
)

// Why a request was not checked, as metrics and headers say it.
var (
	ErrNoDetector = errors.New("no-detector")
	ErrTimeout    = errors.New("timeout")
	ErrOverloaded = errors.New("overloaded")
	ErrDetector   = errors.New("detector-error")
)

// Checker asks detectors. Make it with New.
type Checker struct {
	nc      *nats.Conn
	timeout time.Duration
	now     func() time.Time

	mu      sync.Mutex
	waiting []*call
	senders int

	blocks  *blocks
	batches prometheus.Histogram
}

type call struct {
	check *checkpb.Check
	done  chan answer
}

type answer struct {
	decision *checkpb.Decision
	err      error
}

// New returns a checker that waits at most timeout for a decision.
func New(nc *nats.Conn, timeout time.Duration, now func() time.Time, reg prometheus.Registerer) *Checker {
	c := &Checker{
		nc: nc, timeout: timeout, now: now, blocks: newBlocks(now),
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "unloop_gateway_check_batch_size", Help: "Checks in one message to the detectors.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64},
		}),
	}
	reg.MustRegister(c.batches, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "unloop_gateway_standing_blocks", Help: "Blocks that are answered without a check.",
	}, func() float64 { return float64(c.blocks.len()) }))
	return c
}

// Check returns the decision on a request, or one of this package's errors
// when there was none in time. local says that it came from memory.
func (c *Checker) Check(ctx context.Context, check *checkpb.Check) (decision *checkpb.Decision, local bool, err error) {
	if standing := c.blocks.answer(check); standing != nil {
		return standing, true, nil
	}
	epoch := c.blocks.releases()
	decision, err = c.ask(ctx, check)
	if err == nil && !check.GetPeek() && epoch == c.blocks.releases() {
		c.blocks.learn(decision.GetFindings()...)
	}
	return decision, false, err
}

func (c *Checker) ask(ctx context.Context, check *checkpb.Check) (*checkpb.Decision, error) {
	own := &call{check: check, done: make(chan answer, 1)}
	send, err := c.enqueue(own)
	if err != nil {
		return nil, err
	}
	if send {
		c.send()
	}
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	select {
	case a := <-own.done:
		return a.decision, a.err
	case <-timer.C:
		return nil, ErrTimeout
	case <-ctx.Done():
		return nil, fmt.Errorf("client left: %w", ctx.Err())
	}
}

// enqueue says whether the caller is to send.
func (c *Checker) enqueue(own *call) (send bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) >= maxWaiting {
		return false, ErrOverloaded
	}
	c.waiting = append(c.waiting, own)
	if c.senders >= maxSenders {
		return false, nil
	}
	c.senders++
	return true, nil
}

// send sends one batch here, which holds the caller's own check, and what came
// meanwhile in a goroutine.
func (c *Checker) send() {
	c.exchange(c.take())
	if more := c.take(); more != nil {
		go func() {
			for more != nil {
				c.exchange(more)
				more = c.take()
			}
		}()
	}
}

// take hands out the next batch; nil ends the sender.
func (c *Checker) take() []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), maxBatch)
	if n == 0 {
		c.senders--
		return nil
	}
	batch := c.waiting[:n:n]
	c.waiting = c.waiting[n:]
	return batch
}

func (c *Checker) exchange(batch []*call) {
	if len(batch) == 0 {
		return
	}
	c.batches.Observe(float64(len(batch)))
	decisions, err := c.request(batch)
	for i, one := range batch {
		switch {
		case err != nil:
			one.done <- answer{err: err}
		case decisions[i].GetError() != "":
			one.done <- answer{decisions[i], ErrDetector}
		default:
			one.done <- answer{decision: decisions[i]}
		}
	}
}

func (c *Checker) request(batch []*call) ([]*checkpb.Decision, error) {
	msg := &checkpb.CheckBatch{BudgetMs: uint32(max(c.timeout/time.Millisecond, 1)), Checks: make([]*checkpb.Check, len(batch))}
	for i, one := range batch {
		msg.Checks[i] = one.check
	}
	body, err := proto.Marshal(msg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDetector, err)
	}
	reply, err := c.nc.Request(schemas.SubjectCheck, body, c.timeout)
	switch {
	case errors.Is(err, nats.ErrTimeout):
		return nil, ErrTimeout
	case err != nil:
		return nil, ErrNoDetector
	}
	var answers checkpb.DecisionBatch
	if err := proto.Unmarshal(reply.Data, &answers); err != nil || len(answers.GetDecisions()) != len(batch) {
		return nil, ErrDetector
	}
	return answers.GetDecisions(), nil
}
