// Package checker sends checks to the detectors, in batches and within a time limit. It
// decides from the blocks that stand without a round trip, follows those that detectors
// publish, and reports the hits on them.
//
// It counts nothing itself. It knows neither how a check is made nor how a decision is
// carried out.
package checker

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/gateway/internal/ask/standing"
	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/fleet"
	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

const (
	// maxBatch is how many checks share a message.
	maxBatch = 64
	// maxSent is how many messages to one detector are in flight at once; checks that come
	// meanwhile share the next one.
	maxSent = 4
	// maxWaiting bounds the checks that wait for a message; one caller may have half of them.
	maxWaiting = 8192
	// maxWait bounds the wait for a decision while detectors decide other checks.
	maxWait = time.Second
)

// Reasons for having no decision, as metrics and headers name them.
var (
	ErrNoDetector = errors.New("no-detector")
	ErrTimeout    = errors.New("timeout")
	ErrOverloaded = errors.New("overloaded")
	ErrDetector   = errors.New("detector-error")
)

var errTooLong = errors.New("the check is too long for a message")

// Checker sends checks to detectors. Make it with New.
type Checker struct {
	nc      *natskit.Conn
	timeout time.Duration
	now     func() time.Time

	inbox *natskit.Inbox
	mu    sync.Mutex
	// lanes have the checks by detector. patrolling is set while a patrol is due.
	lanes      map[string]*lane
	patrolling bool
	starved    func() bool

	fleet    *fleet.Fleet
	heat     heat
	repeats  *repeats
	patients atomic.Int64
	outcomes *outcomes
	blocks   *standing.Blocks
	batches  prometheus.Histogram
	again    prometheus.Counter
}

type call struct {
	ctx   context.Context
	check *checkpb.Check
	at    time.Time
	// patient is the time until which the call may wait beyond the timeout; zero for no
	// longer.
	patient time.Time
	// counted is set if its message counts as one of the lane's maxSent.
	counted bool
	done    chan answer
}

type answer struct {
	decision *checkpb.Decision
	err      error
}

// New returns a checker that waits at most timeout for a decision, or longer while its
// detector decides other checks, this process lacks a processor, or the prompt is frequent.
func New(nc *natskit.Conn, timeout time.Duration, now func() time.Time, reg prometheus.Registerer) *Checker {
	c := &Checker{
		nc: nc, timeout: timeout, now: now, starved: new(natskit.Starvation).Since, inbox: natskit.NewInbox(nc, timeout),
		blocks: standing.New(), lanes: map[string]*lane{}, fleet: fleet.New(time.Now), repeats: newRepeats(), outcomes: newOutcomes(),
		batches: metric.Histogram(reg, "unloop_gateway_check_batch_size", "Checks in one message to the detectors.", []float64{1, 2, 4, 8, 16, 32, 64}),
		again:   metric.Counter(reg, "unloop_gateway_check_tries_again_total", "Messages sent again because a detector was gone or frozen."),
	}
	metric.GaugeFunc(reg, "unloop_gateway_standing_blocks", "Standing blocks, whose requests are answered without a check.", func() float64 { return float64(c.blocks.Len()) })
	return c
}

// Prefer sends checks to a detector of the same process, if there is one. It is called before
// the first check.
func (c *Checker) Prefer(l *natskit.InProcess) { c.inbox.Prefer(l) }

// Check returns the decision on a check, or one of this package's errors if there is none in
// time. local is set if it comes from a block in force. After a reconnect, a detector is
// asked about each block; until one answers, the block stays in force.
func (c *Checker) Check(ctx context.Context, check *checkpb.Check) (decision *checkpb.Decision, local bool, err error) {
	if standing := c.blocks.Decision(c.now(), check); standing != nil {
		return standing, true, nil
	}
	epoch := c.blocks.Releases()
	decision, err = c.ask(ctx, check)
	if err != nil && ctx.Err() == nil {
		if doubted := c.blocks.Doubted(c.now(), check); doubted != nil {
			return doubted, true, nil
		}
	}
	if err == nil && !check.GetPeek() && epoch == c.blocks.Releases() {
		c.blocks.Confirm(c.now(), check, decision)
	}
	return decision, false, err
}

// Blocks returns the blocks in force.
func (c *Checker) Blocks() *standing.Blocks { return c.blocks }

func (c *Checker) ask(ctx context.Context, check *checkpb.Check) (*checkpb.Decision, error) {
	bound(check)
	check.Hit = newHit()
	now := time.Now()
	own := &call{ctx: ctx, check: check, at: now, patient: c.patient(check, now), done: make(chan answer, 1)}
	if !own.patient.IsZero() {
		defer c.patients.Add(-1)
	}
	c.outcomes.wait(ctx, check, c.timeout*2/5)
	name, home, shared := c.home(check)
	check.Home, check.Shared = home, shared
	l, send, err := c.enqueue(own, name)
	if err != nil {
		return nil, err
	}
	if send {
		c.send(l, []*call{own}, own.counted)
	}
	select {
	case a := <-own.done:
		return a.decision, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("client left: %w", ctx.Err())
	}
}

// newHit returns a random id for a check, by which detectors recognize one that is sent
// twice.
func newHit() string {
	var random [6]byte
	binary.BigEndian.PutUint32(random[:], rand.Uint32())
	binary.BigEndian.PutUint16(random[4:], uint16(rand.Uint32()))
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// enqueue returns the lane of a call to the named detector, and whether the caller must send
// it; otherwise it shares a later message.
func (c *Checker) enqueue(own *call, home string) (l *lane, send bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l = c.lane(home)
	switch {
	case l.sent < maxSent:
		l.sent++
		l.asked++
		own.counted = true
		return l, true, nil
	case alone(own.check):
		return l, true, nil
	}
	caller, queue := fair.CallerIn(own.ctx), &l.waiting
	if !own.patient.IsZero() {
		queue = &l.patience
	}
	if all, has := c.queued(caller); !fair.May(int64(has), 1, int64(maxWaiting-all)) {
		return nil, false, ErrOverloaded
	}
	queue.Push(caller, own)
	if !c.patrolling {
		c.patrolling = true
		c.patrolLater()
	}
	return l, false, nil
}

// send sends a batch of a lane, if it is not empty. If the batch has a place in the queue,
// the next one is sent when it is answered.
func (c *Checker) send(l *lane, batch []*call, queued bool) {
	if len(batch) == 0 {
		return
	}
	c.batches.Observe(float64(len(batch)))
	message, body, err := c.encode(batch)
	if err != nil {
		for _, one := range batch {
			one.done <- answer{err: fmt.Errorf("%w: %w", ErrDetector, err)}
		}
		if queued {
			go c.send(l, c.take(l, len(batch)), true)
		}
		return
	}
	var next []*call
	var second atomic.Bool // of the answer and the request's return, either may come first
	a := newAttempt(c, l, batch, message, body, func() {
		if queued {
			next = c.take(l, len(batch))
		}
		if second.Swap(true) {
			c.send(l, next, true)
		}
	})
	a.start()
	if second.Swap(true) && len(next) > 0 {
		// The answer came before the request returned, as from an overloaded detector of this
		// process, and so may the following ones: they must use neither this caller's stack
		// nor its time.
		go c.send(l, next, true)
	}
}

// encode returns the message of a batch for a detector of this process, else its encoding.
// Checks in flight are not changed.
func (c *Checker) encode(batch []*call) (message proto.Message, body []byte, err error) {
	msg := &checkpb.CheckBatch{BudgetMs: uint32(max(c.timeout/time.Millisecond, 1)), Parts: true, PatienceMs: uint32(max(c.timeout, maxWait) / time.Millisecond), Checks: make([]*checkpb.Check, len(batch))}
	for i, one := range batch {
		msg.Checks[i] = one.check
	}
	if c.inbox.Near(schemas.SubjectCheck) {
		return msg, nil, nil
	}
	body, err = proto.Marshal(msg)
	if err == nil && len(body) > maxMessage {
		err = errTooLong
	}
	return nil, body, err
}

// reason returns this package's error for one of an Inbox.
func reason(err error) error {
	switch {
	case errors.Is(err, natskit.ErrNoAnswer):
		return ErrTimeout
	case errors.Is(err, natskit.ErrBusy):
		return ErrOverloaded
	default:
		return ErrNoDetector
	}
}

// take delivers a decision to the call.
func (one *call) take(d *checkpb.Decision) {
	switch d.GetError() {
	case "":
		one.done <- answer{decision: d}
	case checkpb.ErrorOverloaded:
		one.done <- answer{d, ErrOverloaded}
	default:
		one.done <- answer{d, ErrDetector}
	}
}

// take returns the next batch of a lane after one of the given size was answered; if it is
// empty, a later caller may send. A batch is a share of all checks that are in flight or
// wait: if it were all that wait, one large message would go back and forth, and each side
// would idle while the other works.
func (c *Checker) take(l *lane, answered int) []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.asked -= answered
	share := (l.asked + l.queued() + maxSent - 1) / maxSent
	queues := []*fair.Queue[*call]{&l.waiting, &l.patience}
	if l.turn = !l.turn; l.turn {
		slices.Reverse(queues)
	}
	batch := fill(queues[0], min(share, maxBatch))
	if len(batch) == 0 {
		batch = fill(queues[1], min(share, maxBatch))
	}
	if len(batch) == 0 {
		l.sent--
	}
	l.asked += len(batch)
	if l.sent == 0 && l.queued() == 0 && c.lanes[l.name] == l {
		delete(c.lanes, l.name)
	}
	return batch
}

// fill takes a batch from a queue, without calls whose clients left.
func fill(queue *fair.Queue[*call], most int) (batch []*call) {
	for range queue.Len() {
		one, _ := queue.Pop(func(*call) bool { return true })
		if one.ctx.Err() != nil {
			continue
		}
		if batch = append(batch, one); len(batch) == most {
			break
		}
	}
	return batch
}
