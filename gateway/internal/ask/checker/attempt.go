package checker

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/fleet"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// maxTries bounds how often one batch is sent.
const maxTries = 3

// attempt is a batch on its way to decisions, which may come in several answers. It is sent
// again only if the first detector has surely not counted it and will not: it refused the
// batch, it is gone, or it is frozen and will refuse waiting messages when it returns.
type attempt struct {
	c    *Checker
	lane *lane
	// key is the caller of the first check, whose detectors take the batch.
	key uint64
	// message is sent, or body, which is the same encoded.
	message proto.Message
	body    []byte
	// until is when it is too late to send it again.
	until    time.Time
	awaited  natskit.Awaited
	tries    atomic.Int32
	underway atomic.Int32
	// counted says that a detector has answered with decisions.
	counted atomic.Bool
	// leave ends the batch's place in the queue, once.
	leave func()
	once  sync.Once

	mu sync.Mutex
	// asked are the detectors that it was sent to by name.
	asked []string
	// open are the calls without a decision, by their places in the batch; nil for others.
	open []*call
	left int
}

func newAttempt(c *Checker, l *lane, batch []*call, message proto.Message, body []byte, leave func()) *attempt {
	until := time.Now().Add(c.timeout)
	if patient := batch[0].patient; patient.After(until) {
		until = patient
	}
	return &attempt{
		c: c, lane: l, key: fleet.Hash(batch[0].check.GetIdentity().GetCaller()), message: message, body: body, until: until,
		awaited: c.awaited(l, batch[0]), leave: leave, open: append([]*call(nil), batch...), left: len(batch),
	}
}

// free ends the batch's place in the queue: with the first answer, since the checks
// that are still open wait for comparisons of texts and not for the detector.
func (a *attempt) free() { a.once.Do(a.leave) }

// start sends the batch. If its detector falls silent, the batch is sent again while there
// is time for that.
//
// Calls that may wait beyond the timeout keep their batch's place in the queue only until
// then, so that others are still asked about.
func (a *attempt) start() {
	if !a.awaited.Patient.IsZero() {
		time.AfterFunc(a.c.timeout, a.free)
	}
	if name := a.try(); name != "" {
		a.watch(name)
	}
}

// watch sends the batch again if its detector has fallen silent after a while.
func (a *attempt) watch(name string) {
	time.AfterFunc(2*a.c.timeout/5, func() {
		switch {
		case a.underway.Load() == 0:
		case a.c.fleet.Silent(name):
			a.again()
		case time.Now().Before(a.awaited.Patient):
			a.watch(name)
		}
	})
}

// try sends the batch to its detector or, if that was asked before or is silent, to the next
// of its first caller, and returns the name.
func (a *attempt) try() (name string) {
	a.tries.Add(1)
	a.underway.Add(1)
	msg := &nats.Msg{Subject: schemas.SubjectCheck, Data: a.body}
	near := a.c.inbox.Near(msg.Subject)
	if !near {
		name = a.detector()
	}
	answered := func(p natskit.Part, err error) (more bool) {
		if err != nil {
			return a.unanswered(name, err)
		}
		part, err := natskit.PartMessage[checkpb.DecisionBatch](p)
		return a.decided(part, err)
	}
	switch {
	case near, a.c.fleet.Unknown(): // there may be one detector, and it may have to beat yet
		a.c.inbox.RequestParts(msg, a.message, a.awaited, answered)
	case name != "":
		msg.Subject = schemas.DetectorSubject(name)
		a.c.inbox.RequestParts(msg, a.message, a.awaited, answered)
	default: // some detector of the group
		a.c.inbox.RequestParts(msg, a.message, natskit.Awaited{}, answered)
	}
	return name
}

// detector returns whom the batch is sent to next; "" for any detector.
func (a *attempt) detector() (name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if name = a.lane.name; len(a.asked) > 0 || name == "" || a.c.fleet.Silent(name) {
		name = a.c.fleet.Choose(a.key, a.asked...).First
	}
	a.asked = append(a.asked, name)
	return name
}

// again sends the batch once more if there is time and no detector has counted it; false
// if it does not.
func (a *attempt) again() bool {
	if a.counted.Load() || a.tries.Load() >= maxTries || !time.Now().Before(a.until) {
		return false
	}
	a.c.again.Inc()
	a.try()
	return true
}

// unanswered takes the error of one try. The calls without a decision get the last one.
func (a *attempt) unanswered(name string, err error) (more bool) {
	left := a.underway.Add(-1)
	if name != "" && errors.Is(err, natskit.ErrNoResponder) {
		a.c.fleet.Gone(name)
		if a.again() {
			return false
		}
	}
	if left <= 0 {
		a.free()
		a.fail(reason(err))
	}
	return false
}

// decided takes the decisions of an answer, or that it can't be read, and reports whether
// the try has more.
func (a *attempt) decided(part *checkpb.DecisionBatch, err error) (more bool) {
	if err == nil && !a.counted.Load() && a.refused(part) && a.again() {
		a.underway.Add(-1)
		return false
	}
	a.counted.Store(true)
	a.c.noteAnswer(a.lane)
	a.free()
	whole := err == nil && a.deliver(part)
	if whole && part.GetMore() && a.waits() {
		return true
	}
	a.underway.Add(-1)
	a.fail(ErrDetector) // those that the last part left out
	return false
}

// refused reports whether a detector counted nothing of a batch since it had been frozen.
func (a *attempt) refused(part *checkpb.DecisionBatch) bool {
	d := part.GetDecisions()
	return len(d) > 0 && len(d) == len(a.open) && d[0].GetError() == checkpb.ErrorStalled
}

// deliver gives the calls their decisions; false if the answer is none to this batch.
func (a *attempt) deliver(part *checkpb.DecisionBatch) bool {
	decisions, checks := part.GetDecisions(), part.GetChecks()
	a.mu.Lock()
	defer a.mu.Unlock()
	all := len(checks) == 0 && !part.GetMore()
	if all && len(decisions) != len(a.open) || !all && len(decisions) != len(checks) {
		return false
	}
	for n, d := range decisions {
		i := n
		if !all {
			i = int(checks[n])
		}
		if i >= len(a.open) {
			return false
		}
		if one := a.open[i]; one != nil {
			a.open[i] = nil
			a.left--
			one.take(d)
		}
	}
	return true
}

// waits reports whether a call has no decision yet.
func (a *attempt) waits() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left > 0
}

// fail gives an error to the calls without a decision.
func (a *attempt) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, one := range a.open {
		if one != nil {
			one.done <- answer{err: err}
		}
		a.open[i] = nil
	}
	a.left = 0
}
