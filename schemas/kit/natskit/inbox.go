package natskit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Errors of an Inbox's requests, beside those of publishing.
var (
	ErrNoAnswer    = errors.New("no answer in time")
	ErrNoResponder = errors.New("nobody answers")
)

// Inbox sends requests and calls back with their answers. It has one subscription for
// all answers and one timer for the missing ones: a goroutine, a channel and a timer for
// each request would cost more than the request.
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
}

type asked struct {
	at     time.Time
	answer func([]byte, error)
}

// NewInbox returns an inbox that lives as long as the connection. A request fails if no
// answer came within timeout, or up to a tenth longer.
func NewInbox(conn *Conn, timeout time.Duration) *Inbox {
	in := &Inbox{conn: conn, timeout: timeout, prefix: nats.NewInbox() + ".", open: map[uint64]asked{}}
	if _, err := conn.Subscribe(in.prefix+"*", in.take); err != nil {
		conn.log.Warn("answers from NATS can't be received", "error", err) // the connection is closed
	}
	return in
}

// Prefer makes requests go to responders of the same process where there are any; p may
// be nil. It is called before the first request.
func (in *Inbox) Prefer(p *InProcess) *Inbox {
	in.near = p
	return in
}

// Near reports whether requests on a subject are answered within the process.
func (in *Inbox) Near(subject string) bool { return in.near.serves(subject) }

// Request sends a message with its own reply subject, and calls answer once, perhaps
// before it returns: with the answer's data or an error. Other answers may have to wait
// while answer runs, so it must not wait for one.
func (in *Inbox) Request(msg *nats.Msg, answer func(data []byte, err error)) {
	id := in.register(answer)
	local := Request{Data: msg.Data, respond: func(data []byte) error {
		in.finish(id, data, nil)
		return nil
	}}
	if in.near.pass(msg.Subject, local) {
		return
	}
	if err := in.publish(msg, id); err != nil {
		in.finish(id, nil, fmt.Errorf("publish to %s: %w", msg.Subject, err))
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

// register keeps the callback of a request.
func (in *Inbox) register(answer func([]byte, error)) (id uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.last++
	in.open[in.last] = asked{time.Now(), answer}
	if !in.sweeping {
		in.sweeping = true
		in.sweepLater()
	}
	return in.last
}

// publish sends a request unless the server is known to be disconnected, or is silent and
// has not answered a request of this inbox.
func (in *Inbox) publish(msg *nats.Msg, id uint64) error {
	if in.missed.Load() > 0 && in.conn.Silent() {
		return ErrSilent
	}
	msg.Reply = in.prefix + strconv.FormatUint(id, 36)
	return in.conn.send(outgoing{
		msg: msg, until: time.Now().Add(in.timeout),
		failed: func(err error) { in.finish(id, nil, fmt.Errorf("publish to %s: %w", msg.Subject, err)) },
	})
}

// finish calls back with an answer; one that comes too late is dropped.
func (in *Inbox) finish(id uint64, data []byte, err error) {
	if a, ok := in.close(id); ok {
		a.answer(data, err)
	}
}

func (in *Inbox) close(id uint64) (asked, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	a, ok := in.open[id]
	delete(in.open, id)
	return a, ok
}

// take handles an answer from NATS.
func (in *Inbox) take(m *nats.Msg) {
	in.missed.Store(0)
	id, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 36, 64)
	switch {
	case err != nil: // no answer to a request of ours
	case len(m.Data) == 0 && m.Header.Get("Status") == "503":
		in.finish(id, nil, ErrNoResponder)
	default:
		in.finish(id, m.Data, nil)
	}
}

func (in *Inbox) sweepLater() { time.AfterFunc(in.timeout/10+1, in.sweep) }

// sweep fails the requests that have waited too long.
func (in *Inbox) sweep() {
	for _, a := range in.expired() {
		in.missed.Add(1)
		a.answer(nil, ErrNoAnswer)
	}
}

func (in *Inbox) expired() []asked {
	in.mu.Lock()
	defer in.mu.Unlock()
	var late []asked
	for id, a := range in.open {
		if time.Since(a.at) >= in.timeout {
			late = append(late, a)
			delete(in.open, id)
		}
	}
	if in.sweeping = len(in.open) > 0; in.sweeping {
		in.sweepLater()
	}
	return late
}
