package natskit

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// attachment is state on a connection that is recreated on the next one.
type attachment struct {
	attach func(*nats.Conn) (detach func(), err error)
	detach func()
}

func (a *attachment) renew(nc *nats.Conn) error {
	detach, err := a.attach(nc)
	if err != nil {
		return err
	}
	a.detach = detach
	return nil
}

// Keep calls attach with the client's connection, and again with each connection that
// replaces it, until release is called. Release calls the last detach.
func (c *Conn) Keep(attach func(*nats.Conn) (detach func(), err error)) (release func(), err error) {
	a := &attachment{attach: attach, detach: func() {}}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A connection that has just closed is about to be replaced.
	if err := a.renew(c.NATS()); err != nil && (c.isClosing() || !errors.Is(err, nats.ErrConnectionClosed)) {
		return nil, err
	}
	c.kept[a] = struct{}{}
	return func() {
		c.mu.Lock()
		delete(c.kept, a)
		detach := a.detach
		c.mu.Unlock()
		detach()
	}, nil
}

// Subscribe calls handle with the messages on a subject until stop is called.
func (c *Conn) Subscribe(subject string, handle func(*nats.Msg)) (stop func(), err error) {
	stop, err = c.Keep(func(nc *nats.Conn) (func(), error) {
		sub, err := nc.Subscribe(subject, handle)
		if err != nil {
			return nil, err
		}
		return func() { _ = sub.Drain() }, nil // a closed connection has no subscriptions
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	return stop, nil
}

// Responder answers the requests on a subject.
type Responder struct {
	Name, Subject string
	Handle        func(Request)
}

// Respond registers a NATS micro service until stop is called, which `nats micro ls` lists.
func (c *Conn) Respond(cfg micro.Config, responders ...Responder) (stop func(), err error) {
	stop, err = c.Keep(func(nc *nats.Conn) (func(), error) {
		svc, err := micro.AddService(nc, cfg)
		if err != nil {
			return nil, err
		}
		for _, r := range responders {
			if err := svc.AddEndpoint(r.Name, c.endpoint(r.Handle), micro.WithEndpointSubject(r.Subject)); err != nil {
				return nil, errors.Join(fmt.Errorf("subscribe to %s: %w", r.Subject, err), svc.Stop())
			}
		}
		return func() { _ = svc.Stop() }, nil // it ends with the connection otherwise
	})
	if err != nil {
		return nil, fmt.Errorf("register %s: %w", cfg.Name, err)
	}
	return stop, nil
}

// endpoint handles requests from NATS. Answers are queued like other messages.
func (c *Conn) endpoint(handle func(Request)) micro.HandlerFunc {
	return func(req micro.Request) {
		r := c.request(req.Data(), req.Reply())
		r.Header = nats.Header(req.Headers())
		handle(r)
	}
}

func (c *Conn) request(data []byte, reply string) Request {
	r := Request{Data: data}
	if reply != "" {
		r.respond = func(answer content) error {
			data, err := answer.bytes()
			if err != nil {
				return err
			}
			return c.Publish(reply, data)
		}
	}
	return r
}
