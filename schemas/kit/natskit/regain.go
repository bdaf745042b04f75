package natskit

import (
	"context"
	"time"
)

// heardWithin is how long after the server's answer the client may take to report a refusal.
const heardWithin = 500 * time.Millisecond

// regain tries a subscription again that the server refused some time ago. If the server
// allows it now, for its operator changed the permissions, the connection is recreated with
// all subscriptions: the server has forgotten those that it refused.
func (c *Conn) regain(ctx context.Context, after time.Duration) {
	began := time.Now()
	subject, ok := c.refusals.subscription(began.Add(-after))
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	nc := c.NATS()
	try, err := nc.SubscribeSync(subject)
	if err != nil {
		return // the connection is closed
	}
	defer func() { _ = try.Unsubscribe() }() // a closed connection has no subscriptions
	if nc.FlushWithContext(ctx) != nil {
		return
	}
	select {
	case <-time.After(heardWithin):
	case <-ctx.Done():
		return
	}
	if !c.refusals.regained(subject, began) {
		return
	}
	c.log.Info("NATS now allows a subscription that it refused, reconnecting", "connection", c.name, "subject", subject)
	if err := nc.ForceReconnect(); err != nil {
		c.log.Warn("NATS connection was not replaced", "connection", c.name, "error", err)
	}
}
