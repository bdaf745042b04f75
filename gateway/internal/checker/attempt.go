package checker

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// maxTries bounds how often one batch is sent.
const maxTries = 3

// attempt is a batch on its way to a decision. It is sent again only if the first detector
// has surely not counted it and will not: it refused the batch, it is gone, or it is
// frozen, and will refuse on its return what came meanwhile.
type attempt struct {
	c        *Checker
	body     []byte
	size     int
	began    time.Time
	turn     natskit.Turn
	tries    atomic.Int32
	underway atomic.Int32
	once     sync.Once
	done     func(data []byte, err error)
}

// start sends the batch. If its detector falls silent, the batch is sent again while there
// is time for that.
func (a *attempt) start() {
	name := a.try("")
	if name == "" {
		return
	}
	time.AfterFunc(2*a.c.timeout/5, func() {
		if a.c.fleet.silent(name) && a.underway.Load() > 0 {
			a.again(name)
		}
	})
}

// try sends the batch to another detector than the one named, and returns the name.
func (a *attempt) try(except string) (name string) {
	a.tries.Add(1)
	a.underway.Add(1)
	msg := &nats.Msg{Subject: schemas.SubjectCheck, Data: a.body}
	near := a.c.inbox.Near(msg.Subject)
	if !near {
		name = a.c.fleet.next(except)
	}
	answered := func(data []byte, err error) { a.answered(name, data, err) }
	switch {
	case near, a.c.fleet.unknown(): // there may be one detector, and it may have to beat yet
		a.c.inbox.RequestInTurn(msg, a.turn, answered)
	case name != "":
		msg.Subject = schemas.DetectorSubject(name)
		a.c.inbox.RequestInTurn(msg, a.turn, answered)
	default: // some detector of the group
		a.c.inbox.Request(msg, answered)
	}
	return name
}

// again sends the batch once more if there is time; false if there is not.
func (a *attempt) again(except string) bool {
	if a.tries.Load() >= maxTries || time.Since(a.began) >= a.c.timeout {
		return false
	}
	a.c.again.Inc()
	a.try(except)
	return true
}

// answered takes the answer to one try. The first decision ends the attempt, or the last
// error.
func (a *attempt) answered(name string, data []byte, err error) {
	left := a.underway.Add(-1)
	if name != "" && errors.Is(err, natskit.ErrNoResponder) {
		a.c.fleet.gone(name)
		if a.again(name) {
			return
		}
	}
	if err == nil && refused(data, a.size) && a.again(name) {
		return
	}
	if err != nil && left > 0 {
		return
	}
	a.underway.Store(0)
	a.once.Do(func() { a.done(data, err) })
}

// refused reports whether a detector counted nothing of a batch since it had been frozen.
func refused(data []byte, size int) bool {
	if len(data) > size*(len(checkpb.ErrorStalled)+8) {
		return false // there are decisions in it
	}
	decisions, err := decode(data, size)
	return err == nil && size > 0 && decisions[0].GetError() == checkpb.ErrorStalled
}
