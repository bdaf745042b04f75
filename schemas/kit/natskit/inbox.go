package natskit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
)

// Errors of an Inbox's requests, beside those of publishing.
var (
	ErrNoAnswer    = errors.New("no answer in time")
	ErrNoResponder = errors.New("nobody answers")
	// ErrBusy means that a request's turn did not come: its responder answers others.
	ErrBusy = errors.New("the responder answers other requests")
)

// Inbox sends requests and calls back with their answers. It has one subscription for all
// answers and one timer: a goroutine, a channel and a timer per request would cost more than
// the request.
type Inbox struct {
	conn    *Conn
	timeout time.Duration
	near    *InProcess
	// prefix begins the reply subjects.
	prefix string
	// missed counts the requests without an answer since the last answer.
	missed atomic.Int64

	mu       sync.Mutex
	last     uint64
	open     map[uint64]asked
	sweeping bool
	// answered has, by subject, the earliest send time of the requests in turn that were
	// answered since the last sweep.
	answered map[string]time.Time
	// swept is the time of the last sweep.
	swept   time.Time
	starved func() bool
}

type asked struct {
	// from is the start of the timeout; until is its end in any case, zero for a request that
	// is not in turn.
	from, until time.Time
	// patient is the time until which the request waits beyond the timeout, unless the server
	// is silent.
	patient time.Time
	sent    time.Time
	subject string // of a request in turn
	waits   bool   // as in Request
	// silent is set if the responder answered nothing within the timeout.
	silent bool
	// One of these is set: answer takes one answer as bytes, reply as content; part takes
	// several until it returns false.
	answer func([]byte, error)
	reply  func(content, error)
	part   func(Part, error) (more bool)
}

// take calls back with an answer, and reports whether the request may get more.
func (a asked) take(c content, err error) (more bool) {
	if a.reply != nil {
		a.reply(c, err)
		return false
	}
	if a.part != nil {
		return a.part(Part{c}, err)
	}
	data := c.data
	if err == nil && c.message != nil {
		data, err = c.bytes()
	}
	a.answer(data, err)
	return false
}

// Part is one of several answers to a request.
type Part struct{ content }

// PartMessage returns the message of a part. It may be the responder's own, so it must not be
// changed.
func PartMessage[M any, P message[M]](p Part) (P, error) { return decode[M, P](p.content) }

// Awaited has the time limits of a request in turn: it waits for the timeout after From, or
// until Patient if that is later and the server is not silent, but at most until Until.
type Awaited struct{ From, Until, Patient time.Time }

// NewInbox returns an inbox that lives as long as the connection. A request fails after
// timeout to 1.1 timeout without an answer.
func NewInbox(conn *Conn, timeout time.Duration) *Inbox {
	in := &Inbox{conn: conn, timeout: timeout, prefix: conn.NATS().NewInbox() + ".", open: map[uint64]asked{}, answered: map[string]time.Time{}, starved: new(Starvation).Since}
	if _, err := conn.Subscribe(in.prefix+"*", in.take); err != nil {
		conn.log.Warn("answers from NATS can't be received", "error", err) // the connection is closed
	}
	return in
}

// Prefer sends requests to responders of the same process where there are any; p may be nil.
// It is called before the first request.
func (in *Inbox) Prefer(p *InProcess) *Inbox {
	in.near = p
	return in
}

// Starving replaces the inbox's own Starvation by a function that reports whether this
// process lacked a processor since its last call. It is called before the first request.
func (in *Inbox) Starving(starved func() bool) { in.starved = starved }

// Near reports whether requests on a subject are answered within the process.
func (in *Inbox) Near(subject string) bool { return in.near.serves(subject) }

// Request sends a message and calls answer once, perhaps before it returns, with the answer's
// data or an error. answer must not wait for other answers, which may wait for it.
func (in *Inbox) Request(msg *nats.Msg, answer func(data []byte, err error)) {
	in.request(msg, nil, asked{from: time.Now(), answer: answer})
}

// RequestParts is Request to a single responder that may answer several times: part is called
// with each answer, perhaps concurrently, until it returns false or gets an error. If m is
// not nil, it is sent instead of the data of msg, and must not be changed afterwards.
//
// A nonzero t is for responders that answer requests roughly in order: the timeout restarts
// whenever an earlier request on the subject is answered, and stands still while this process
// lacks a processor. The error is ErrBusy if t.Until comes before the end of the timeout.
func (in *Inbox) RequestParts(msg *nats.Msg, m proto.Message, t Awaited, part func(p Part, err error) (more bool)) {
	a := asked{from: time.Now(), part: part}
	if t.Until.IsZero() {
		in.request(msg, m, a)
		return
	}
	a.from, a.until, a.patient, a.sent, a.subject = t.From, t.Until, t.Patient, a.from, msg.Subject
	in.request(msg, m, a)
}

// request sends msg, or the message m instead of its data unless m is nil.
func (in *Inbox) request(msg *nats.Msg, m proto.Message, a asked) {
	id := in.register(a)
	local := Request{Data: msg.Data, Header: msg.Header, message: m, waits: a.waits, respond: func(c content) error {
		in.finish(id, c, nil)
		return nil
	}}
	if in.near.pass(msg.Subject, local) {
		return
	}
	var err error
	if m != nil {
		msg.Data, err = proto.Marshal(m)
	}
	if err == nil {
		err = in.publish(msg, id, a.until)
	}
	if err != nil {
		in.finish(id, content{}, fmt.Errorf("publish to %s: %w", msg.Subject, err))
	}
}

// Ask is Request that waits for the answer, at most until the context ends.
func (in *Inbox) Ask(ctx context.Context, msg *nats.Msg) ([]byte, error) {
	type answer struct {
		data []byte
		err  error
	}
	answered := make(chan answer, 1)
	in.Request(msg, func(data []byte, err error) { answered <- answer{data, err} })
	select {
	case a := <-answered:
		return a.data, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Call sends a message and waits for the answer, at most until the context ends. If the
// context can't end, a responder in the process may work in the caller's goroutine. Neither
// message may be changed: within the process they are not copied.
func Call[M any, P message[M]](ctx context.Context, in *Inbox, msg *nats.Msg, m proto.Message) (P, error) {
	type answer struct {
		content
		err error
	}
	answered := make(chan answer, 1)
	in.request(msg, m, asked{from: time.Now(), waits: ctx.Done() == nil, reply: func(c content, err error) { answered <- answer{c, err} }})
	select {
	case a := <-answered:
		if a.err != nil {
			return nil, a.err
		}
		return decode[M, P](a.content)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// register adds an open request.
func (in *Inbox) register(a asked) (id uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.last++
	in.open[in.last] = a
	if !in.sweeping {
		in.sweeping, in.swept = true, time.Now()
		in.sweepLater()
	}
	return in.last
}

// publish sends a request, no later than until. It fails if the server is disconnected, or is
// silent and left a request of this inbox unanswered.
func (in *Inbox) publish(msg *nats.Msg, id uint64, until time.Time) error {
	if in.missed.Load() > 0 && in.conn.Silent() {
		return ErrSilent
	}
	msg.Reply = in.prefix + strconv.FormatUint(id, 36)
	if until.IsZero() {
		until = time.Now().Add(in.timeout)
	}
	return in.conn.send(outgoing{
		msg: msg, until: until,
		failed: func(err error) { in.finish(id, content{}, fmt.Errorf("publish to %s: %w", msg.Subject, err)) },
	})
}

// finish calls back with an answer; late ones are dropped.
func (in *Inbox) finish(id uint64, c content, err error) {
	a, ok := in.find(id, err == nil)
	if ok && !a.take(c, err) && a.part != nil {
		in.close(id)
	}
}

// find returns an open request, and closes it unless it may get more answers.
func (in *Inbox) find(id uint64, answered bool) (asked, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	a, ok := in.open[id]
	if a.part == nil || !answered {
		delete(in.open, id)
	}
	if first, known := in.answered[a.subject]; answered && a.subject != "" && (!known || a.sent.Before(first)) {
		in.answered[a.subject] = a.sent
	}
	return a, ok
}

func (in *Inbox) close(id uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.open, id)
}

// take handles an answer from NATS.
func (in *Inbox) take(m *nats.Msg) {
	in.missed.Store(0)
	id, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 36, 64)
	switch {
	case err != nil: // no answer to a request of ours
	case len(m.Data) == 0 && m.Header.Get("Status") == "503":
		in.finish(id, content{}, ErrNoResponder)
	default:
		in.finish(id, content{data: m.Data}, nil)
	}
}

func (in *Inbox) sweepLater() {
	time.AfterFunc(in.timeout/10+1, func() {
		runtime.Gosched() // let answers that wait for a processor come first
		in.sweep()
	})
}

// sweep fails the requests that have waited too long.
func (in *Inbox) sweep() {
	for _, a := range in.expired() {
		if a.silent {
			in.missed.Add(1)
			a.take(content{}, ErrNoAnswer)
		} else {
			a.take(content{}, ErrBusy)
		}
	}
}

// expired removes and returns the requests that have waited too long.
func (in *Inbox) expired() []asked {
	in.mu.Lock()
	defer in.mu.Unlock()
	var over []asked
	now := time.Now()
	lost := in.lost(now)
	for id, a := range in.open {
		if in.turn(&a, now, lost) {
			in.open[id] = a
		}
		a.silent = now.Sub(a.from) >= in.timeout && (!now.Before(a.patient) || in.conn.Silent())
		if a.silent || !a.until.IsZero() && !now.Before(a.until) {
			over = append(over, a)
			delete(in.open, id)
		}
	}
	clear(in.answered)
	if in.sweeping = len(in.open) > 0; in.sweeping {
		in.sweepLater()
	}
	return over
}

// lost returns the time since the last sweep if the process lacked a processor in it; else 0.
func (in *Inbox) lost(now time.Time) time.Duration {
	since := now.Sub(in.swept)
	in.swept = now
	if in.starved() || since > in.timeout/5 {
		return since
	}
	return 0
}

// overtaken is the tolerance for answers out of order: an answer restarts the timeouts of
// requests that were sent up to so much earlier, or up to the timeout if that is shorter.
const overtaken = 100 * time.Millisecond

// turn postpones the timeout of a request in turn if its responder answered an earlier one or
// the process lacked a processor, and reports whether it did.
func (in *Inbox) turn(a *asked, now time.Time, lost time.Duration) bool {
	if a.subject == "" {
		return false
	}
	if first, known := in.answered[a.subject]; known && first.Before(a.sent.Add(min(in.timeout, overtaken))) {
		a.from = now
		return true
	}
	if lost == 0 {
		return false
	}
	if a.from = a.from.Add(lost); a.from.After(now) {
		a.from = now
	}
	return true
}
