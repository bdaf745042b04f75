package natskit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/pause"
)

// Errors of sending. They are returned at once: sending never waits for a lock of the
// client, which holds it while it reconnects.
var (
	// ErrNotConnected means that no server is connected.
	ErrNotConnected = errors.New("not connected to NATS")
	// ErrSilent means that the server is connected and does not answer.
	ErrSilent = errors.New("NATS does not answer")
	// ErrCongested means that messages come faster than the server takes them.
	ErrCongested = errors.New("NATS accepts no more messages")
	// ErrSubject means that a subject is longer than a server accepts. Sending it would
	// close the connection.
	ErrSubject = errors.New("subject is too long")
)

var errClosed = fmt.Errorf("%w: %w", ErrNotConnected, nats.ErrConnectionClosed)

const (
	// maxOut bounds the queue of messages to send.
	maxOut = 4096
	// maxSubject bounds subjects, in bytes: a server closes connections whose
	// control line, which holds two of them, is over 4096.
	maxSubject = 1024
	// replaceAfter is the pause before a connection that closed is replaced.
	replaceAfter = 250 * time.Millisecond
	// closeWithin bounds each of the two steps of Close.
	closeWithin = 500 * time.Millisecond
)

// Conn is a connection to NATS that survives every fault. The client's connection
// reconnects after an outage of the server; a Conn also replaces a connection that was
// closed for good, such as after a protocol error, together with its subscriptions.
// Sending never blocks. Make it with Connect.
type Conn struct {
	name     string
	log      *slog.Logger
	settings Settings
	dial     func(...nats.Option) (*nats.Conn, error)
	// borrowed marks a connection of the client that belongs to the caller.
	borrowed bool

	current atomic.Pointer[link]
	up      atomic.Bool
	first   chan struct{} // closed when a server was connected for the first time
	reached sync.Once
	pulse   pulse
	reasons reasons
	health  health
	look    chan struct{} // requests a check of the streams
	suspect chan struct{} // requests a check of the embedded server; nil for other servers
	// refusals counts what the server refused.
	refusals refusals
	// placement is the scheme of the partitions; nil if it is not known.
	placement atomic.Pointer[placement]
	// asking holds a value while the scheme is requested. keeping is set while it is renewed
	// in the background; used is the time of its last use in Unix nanoseconds.
	asking  chan struct{}
	keeping atomic.Bool
	used    atomic.Int64

	out chan outgoing
	// life ends with Close.
	life  context.Context
	end   context.CancelFunc
	close sync.Once

	mu        sync.Mutex
	kept      map[*attachment]struct{}
	listeners map[chan struct{}]struct{}
}

// link is one connection of the client with its JetStream context.
type link struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// outgoing is a message in the queue, or a marker for Flush.
type outgoing struct {
	msg *nats.Msg
	// until is the time after which the message is dropped; zero for none.
	until time.Time
	// failed, if not nil, is called if the message was not sent.
	failed func(error)
	// sent, if not nil, makes this a marker; it is closed when its turn comes.
	sent chan struct{}
}

// start makes the first connection and starts the goroutines of the Conn.
func start(name string, log *slog.Logger, settings Settings, dial func(...nats.Option) (*nats.Conn, error)) (*Conn, error) {
	c := newConn(name, log)
	c.settings, c.dial = settings, dial
	l, err := c.open()
	if err != nil {
		return nil, err
	}
	c.current.Store(l)
	if l.nc.IsConnected() {
		<-c.first // the handler runs at once
	}
	go c.publish()
	return c, nil
}

func newConn(name string, log *slog.Logger) *Conn {
	life, end := context.WithCancel(context.Background())
	return &Conn{
		name: name, log: log, out: make(chan outgoing, maxOut), life: life, end: end, first: make(chan struct{}), look: make(chan struct{}, 1), asking: make(chan struct{}, 1),
		kept: map[*attachment]struct{}{}, listeners: map[chan struct{}]struct{}{},
		health:   health{trouble: map[string]trouble{}, lacking: map[string]int{}},
		refusals: refusals{creations: map[string]time.Time{}, said: map[string]bool{}, waiting: map[*waiter]struct{}{}},
	}
}

// Borrow returns a Conn that uses a connection of the caller, which it neither replaces
// nor closes.
func Borrow(js jetstream.JetStream) *Conn {
	c := newConn(js.Conn().Opts.Name, slog.New(slog.DiscardHandler))
	c.borrowed, c.settings.Domain = true, js.Options().Domain
	c.current.Store(&link{js.Conn(), js})
	c.up.Store(true)
	go c.publish()
	return c
}

// open makes a connection of the client. It fails only if no retry can help.
func (c *Conn) open() (*link, error) {
	nc, err := c.dial(
		nats.ConnectHandler(func(*nats.Conn) { c.connected() }),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			c.connected()
			c.log.Info("NATS connection is back", "connection", c.name, "server", nc.ConnectedAddr())
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { c.lost(err) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.note(err) }),
		nats.ErrorHandler(func(nc *nats.Conn, _ *nats.Subscription, err error) { c.reported(err); renew(nc, err) }),
		nats.ClosedHandler(func(nc *nats.Conn) { c.closed(nc.LastError()) }),
	)
	if err != nil {
		return nil, err
	}
	js, err := c.settings.JetStream(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &link{nc, js}, nil
}

// renew closes a connection whose key has changed in its file. Its replacement reads the
// file.
func renew(nc *nats.Conn, err error) {
	if errors.Is(err, errNewKey) {
		go nc.Close()
	}
}

func (c *Conn) connected() {
	c.health.connects.Add(1)
	c.pulse.clear()
	c.reasons.clear()
	c.up.Store(true)
	c.reached.Do(func() { close(c.first) })
	c.changed()
}

func (c *Conn) lost(err error) {
	c.up.Store(false)
	if err == nil || c.isClosing() {
		return
	}
	c.reasons.add(err)
	c.log.Warn("NATS connection lost, reconnecting", "connection", c.name, "error", err)
}

// reported handles errors that the server or the client reports, such as refused credentials
// while reconnecting.
func (c *Conn) reported(err error) {
	if one, ok := refusalOf(err); ok {
		c.refused(one)
		return
	}
	if !c.up.Load() {
		c.note(err)
		return
	}
	c.log.Warn("NATS reported an error", "connection", c.name, "error", err)
}

// note records a reason of an outage, and logs each reason once per outage.
func (c *Conn) note(err error) {
	if c.isClosing() || c.up.Load() || !c.reasons.add(err) {
		return
	}
	c.log.Warn("NATS is unreachable, retrying", "connection", c.name, "error", err)
}

// closed replaces a connection that the client has closed.
func (c *Conn) closed(err error) {
	c.up.Store(false)
	if c.isClosing() {
		return
	}
	c.note(err)
	c.log.Error("NATS connection closed for good, replacing it", "connection", c.name, "error", err)
	go c.replace()
}

func (c *Conn) replace() {
	for pause.For(c.life, replaceAfter) == nil {
		l, err := c.open()
		if err == nil {
			c.adopt(l)
			return
		}
		c.note(err)
	}
}

// adopt switches to a new connection.
func (c *Conn) adopt(l *link) {
	c.mu.Lock()
	c.current.Store(l)
	for a := range c.kept {
		if err := a.renew(l.nc); err != nil {
			c.log.Warn("NATS subscription was not renewed", "connection", c.name, "error", err)
		}
	}
	c.mu.Unlock()
	c.changed()
	if c.isClosing() {
		l.nc.Close()
	}
}

func (c *Conn) isClosing() bool { return c.life.Err() != nil }

// NATS returns the current connection of the client. Its methods block while it reconnects.
func (c *Conn) NATS() *nats.Conn { return c.current.Load().nc }

// JetStream returns the JetStream context of NATS. Callers must not keep it.
func (c *Conn) JetStream() jetstream.JetStream { return c.current.Load().js }

// Changed returns a channel that receives a value after a reconnect, or after a stream was
// recreated: followers of streams then have to start over.
func (c *Conn) Changed() (changed <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners[ch] = struct{}{}
	return ch, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.listeners, ch)
	}
}

func (c *Conn) changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ch := range c.listeners {
		signal(ch)
	}
}

// signal sends a value to a channel that has none.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default: // one value is enough
	}
}

// Publish queues a message. A nil error does not promise that the message is sent.
func (c *Conn) Publish(subject string, data []byte) error {
	return c.send(outgoing{msg: &nats.Msg{Subject: subject, Data: data}})
}

// send queues a message without waiting.
func (c *Conn) send(o outgoing) error {
	switch {
	case c.isClosing() || !c.up.Load():
		return c.Err()
	case o.msg != nil && (len(o.msg.Subject) > maxSubject || len(o.msg.Reply) > maxSubject):
		return fmt.Errorf("%w: %d bytes, at most %d", ErrSubject, max(len(o.msg.Subject), len(o.msg.Reply)), maxSubject)
	}
	select {
	case c.out <- o:
		return nil
	default:
		return ErrCongested
	}
}

// publish sends the queued messages, so that no other goroutine waits for the client's lock.
func (c *Conn) publish() {
	for {
		select {
		case o := <-c.out:
			c.pass(o)
		case <-c.life.Done():
			return
		}
	}
}

func (c *Conn) pass(o outgoing) {
	if o.sent != nil {
		close(o.sent)
		return
	}
	if !o.until.IsZero() && time.Now().After(o.until) {
		return
	}
	err := c.NATS().PublishMsg(o.msg)
	if err != nil && o.failed != nil {
		if errors.Is(err, nats.ErrReconnectBufExceeded) {
			err = ErrNotConnected
		}
		o.failed(err)
	}
}

// Flush waits until the server has received what was sent, at most for timeout. It does
// not wait for a server that is disconnected or silent.
func (c *Conn) Flush(timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c.flush(ctx)
}

func (c *Conn) flush(ctx context.Context) {
	sent := make(chan struct{})
	if c.Silent() || c.send(outgoing{sent: sent}) != nil {
		return
	}
	select {
	case <-sent:
	case <-ctx.Done():
		return
	}
	bounded(ctx, func() { _ = c.NATS().FlushWithContext(ctx) }) // without an answer in time nothing else can be done
}

// CatchUp flushes, and then waits until the messages that the server had sent by that
// time have been handled, such as requests to a subscription that has just ended. Each
// of the two steps takes at most timeout.
func (c *Conn) CatchUp(timeout time.Duration) {
	c.Flush(timeout)
	if c.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	bounded(ctx, func() {
		handled := make(chan struct{})
		if c.NATS().Barrier(func() { close(handled) }) != nil {
			return
		}
		select {
		case <-handled:
		case <-ctx.Done():
		}
	})
}

// Close sends the queued messages and closes the connection. It does not wait long for a
// server that does not answer.
func (c *Conn) Close() {
	c.close.Do(func() {
		c.Flush(closeWithin)
		c.end()
		c.up.Store(false)
		if c.borrowed {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		bounded(ctx, c.NATS().Close)
	})
}
