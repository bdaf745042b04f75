package ledger

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// sweepEvery is how often unanswered requests are looked for, while there are
// any requests.
const sweepEvery = writeTimeout / 10

// Errors of a request.
var (
	errTimeout     = errors.New("no answer in time")
	errNoResponder = errors.New("nobody answers")
)

// inbox sends requests and calls back with their answers. One subscription
// takes all answers, and one timer finds those that never came: a goroutine, a
// channel and a timer for each request would cost more than the request.
type inbox struct {
	nc     *nats.Conn
	prefix string

	mu         sync.Mutex
	subscribed bool
	last       uint64
	open       map[uint64]asked
	sweeping   bool
}

type asked struct {
	at     time.Time
	answer func([]byte, error)
}

func newInbox(nc *nats.Conn) *inbox {
	return &inbox{nc: nc, prefix: nc.NewInbox() + ".", open: map[uint64]asked{}}
}

// request sends a message and calls answer once: with the answer's data, which
// it must not keep, or with an error.
func (in *inbox) request(msg *nats.Msg, answer func([]byte, error)) {
	id, err := in.register(answer)
	if err != nil {
		answer(nil, err)
		return
	}
	msg.Reply = in.prefix + strconv.FormatUint(id, 36)
	if err := in.nc.PublishMsg(msg); err != nil {
		if a, ok := in.close(id); ok {
			a.answer(nil, err)
		}
	}
}

func (in *inbox) register(answer func([]byte, error)) (uint64, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.subscribed {
		if _, err := in.nc.Subscribe(in.prefix+"*", in.take); err != nil {
			return 0, fmt.Errorf("subscribe to answers: %w", err)
		}
		in.subscribed = true
	}
	in.last++
	in.open[in.last] = asked{time.Now(), answer}
	if !in.sweeping {
		in.sweeping = true
		time.AfterFunc(sweepEvery, in.sweep)
	}
	return in.last, nil
}

func (in *inbox) close(id uint64) (asked, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	a, ok := in.open[id]
	delete(in.open, id)
	return a, ok
}

// take gives an answer to whoever asked; one that comes too late is dropped.
func (in *inbox) take(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[len(in.prefix):], 36, 64)
	if err != nil {
		return // no answer to a request of ours
	}
	a, ok := in.close(id)
	switch {
	case !ok:
	case len(m.Data) == 0 && m.Header.Get("Status") == "503":
		a.answer(nil, errNoResponder)
	default:
		a.answer(m.Data, nil)
	}
}

// sweep gives up on requests that have waited too long.
func (in *inbox) sweep() {
	for _, a := range in.expired() {
		a.answer(nil, errTimeout)
	}
}

func (in *inbox) expired() []asked {
	in.mu.Lock()
	defer in.mu.Unlock()
	var late []asked
	for id, a := range in.open {
		if time.Since(a.at) >= writeTimeout {
			late = append(late, a)
			delete(in.open, id)
		}
	}
	if in.sweeping = len(in.open) > 0; in.sweeping {
		time.AfterFunc(sweepEvery, in.sweep)
	}
	return late
}
