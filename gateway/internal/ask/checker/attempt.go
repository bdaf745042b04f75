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

// maxTries bounds the tries of one batch.
const maxTries = 3

// attempt is a batch that waits for its decisions, which may come in several answers. It is
// sent again only if the first detector certainly has not counted it and will not: the
// detector refused the batch, is gone, or is frozen and will refuse waiting messages when it
// resumes.
type attempt struct {
	c    *Checker
	lane *lane
	// key is the caller of the first check, whose detectors take the batch.
	key uint64
	// message is sent within the process, else body, its encoding.
	message proto.Message
	body    []byte
	// until is the time after which it is not sent again.
	until    time.Time
	awaited  natskit.Awaited
	tries    atomic.Int32
	underway atomic.Int32
	// counted is set after a detector answered with decisions.
	counted atomic.Bool
	// leave ends the batch's place in the queue, once.
	leave func()
	once  sync.Once

	mu sync.Mutex
	// asked are the detectors to which it was sent by name.
	asked []string
	// open are the calls without a decision, by their index in the batch; nil for decided
	// ones.
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

// free gives up the batch's place in the queue with the first answer: checks that are open
// after it wait for semantic comparisons, not for the detector.
func (a *attempt) free() { a.once.Do(a.leave) }

// start sends the batch. If its detector falls silent, the batch is sent again while there is
// time.
//
// A batch that may wait longer than the timeout keeps its place in the queue only until then.
func (a *attempt) start() {
	if !a.awaited.Patient.IsZero() {
		time.AfterFunc(a.c.timeout, a.free)
	}
	if name := a.try(); name != "" {
		a.watch(name)
	}
}

// watch sends the batch again if its detector falls silent.
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

// try sends the batch to its detector and returns the name. If that detector was asked before
// or is silent, try sends it to the next one for the first caller.
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
	case near, a.c.fleet.Unknown(): // the only detector may not have sent a heartbeat yet
		a.c.inbox.RequestParts(msg, a.message, a.awaited, answered)
	case name != "":
		msg.Subject = schemas.DetectorSubject(name)
		a.c.inbox.RequestParts(msg, a.message, a.awaited, answered)
	default: // some detector of the group
		a.c.inbox.RequestParts(msg, a.message, natskit.Awaited{}, answered)
	}
	return name
}

// detector returns the detector to try next; "" for any.
func (a *attempt) detector() (name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if name = a.lane.name; len(a.asked) > 0 || name == "" || a.c.fleet.Silent(name) {
		name = a.c.fleet.Choose(a.key, a.asked...).First
	}
	a.asked = append(a.asked, name)
	return name
}

// again sends the batch once more if there is time and no detector has counted it, and
// reports whether it did.
func (a *attempt) again() bool {
	if a.counted.Load() || a.tries.Load() >= maxTries || !time.Now().Before(a.until) {
		return false
	}
	a.c.again.Inc()
	a.try()
	return true
}

// unanswered handles the failure of one try. After the last one, the open calls get its
// error.
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

// decided handles an answer, or the error of reading it, and reports whether the try has more
// answers.
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

// refused reports whether a detector counted nothing of the batch because it had been frozen.
func (a *attempt) refused(part *checkpb.DecisionBatch) bool {
	d := part.GetDecisions()
	return len(d) > 0 && len(d) == len(a.open) && d[0].GetError() == checkpb.ErrorStalled
}

// deliver gives the calls their decisions; false if the answer does not fit the batch.
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

// waits reports whether any call has no decision yet.
func (a *attempt) waits() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left > 0
}

// fail fails the calls without a decision.
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
