package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/kit/operator"
)

type deliveriesCmd struct {
	List   deliveriesListCmd   `cmd:"" default:"withargs" help:"List the messages in the delivery log, newest first."`
	Show   deliveriesShowCmd   `cmd:"" help:"Show a message with its attempts."`
	Resend deliveriesResendCmd `cmd:"" help:"Send a logged message again, with the same id."`
	Test   deliveriesTestCmd   `cmd:"" help:"Send a test message to an endpoint, and a second one that resolves it."`
}

type deliveriesListCmd struct {
	listing
	Endpoint string `env:"-" short:"e" placeholder:"NAME" help:"Only messages to this endpoint."`
	Status   string `env:"-" enum:",delivered,retrying,dead" default:"" placeholder:"STATUS" help:"Only messages with this status: delivered, retrying or dead."`
}

// Run lists the messages with at least one delivery attempt.
func (c *deliveriesListCmd) Run(ctx context.Context, std streams) error {
	return list[delivery.Record]{c.read, "Nothing was delivered in the last seven days.", deliveryTable}.run(ctx, &c.listing, std)
}

// read returns the messages that the flags select.
func (c *deliveriesListCmd) read(ctx context.Context, js jetstream.JetStream) ([]delivery.Record, error) {
	all, err := deliveries(ctx, js)
	return slices.DeleteFunc(all, func(r delivery.Record) bool {
		return c.Endpoint != "" && r.Endpoint != c.Endpoint || c.Status != "" && string(r.Status) != c.Status
	}), err
}

func deliveryTable(all []delivery.Record, now time.Time) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Name: "MESSAGE", MinWidth: 12}, terminal.Column{Name: "ENDPOINT", MinWidth: 8}, terminal.Column{Name: "STATUS"},
		terminal.Column{Name: "TRIED", Rank: 2}, terminal.Column{Name: "LAST", Rank: 1}, terminal.Column{Name: "NEXT", Rank: 2}, terminal.Column{Name: "ERROR", Rank: 3, MinWidth: 10})
	for i := range all {
		r := &all[i]
		last, next, fault := "", "", ""
		if n := len(r.Attempts); n > 0 {
			last, fault = terminal.Moment(r.Attempts[n-1].At, now), r.Attempts[n-1].Error
		}
		if !r.Next.IsZero() {
			next = "in " + terminal.Age(max(r.Next.Sub(now), 0))
		}
		t.Row(r.ID, r.Endpoint, string(r.Status), fmt.Sprint(r.Tried), last, next, fault)
	}
	return t
}

type deliveriesShowCmd struct {
	client
	messageArg
}

// messageArg names a message of the delivery log.
type messageArg struct {
	ID       string `arg:"" help:"The message's id."`
	Endpoint string `env:"-" short:"e" placeholder:"NAME" help:"The endpoint, if several got the message."`
}

// find returns the message.
func (m messageArg) find(ctx context.Context, js jetstream.JetStream) (delivery.Record, error) {
	all, err := deliveries(ctx, js)
	if err != nil {
		return delivery.Record{}, explain(err)
	}
	all = slices.DeleteFunc(all, func(r delivery.Record) bool { return r.ID != m.ID || m.Endpoint != "" && r.Endpoint != m.Endpoint })
	switch len(all) {
	case 0:
		return delivery.Record{}, fmt.Errorf("the delivery log has no message %s; list them with: unloop deliveries", m.ID)
	case 1:
		return all[0], nil
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Endpoint
	}
	slices.Sort(names)
	return delivery.Record{}, fmt.Errorf("several endpoints got %s; name one with --endpoint: %s", m.ID, strings.Join(names, ", "))
}

// Run prints the record of a message.
func (c *deliveriesShowCmd) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(js jetstream.JetStream) error {
		r, err := c.find(ctx, js)
		if err != nil {
			return err
		}
		return std.json(r)
	})
}

type deliveriesResendCmd struct {
	client
	messageArg
}

// Run sends a message again.
func (c *deliveriesResendCmd) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(js jetstream.JetStream) error {
		r, err := c.find(ctx, js)
		if err != nil {
			return err
		}
		return send(ctx, js.Conn(), std, operator.Resend, delivery.Request{Endpoint: r.Endpoint, ID: r.ID})
	})
}

type deliveriesTestCmd struct {
	client
	Endpoint string `arg:"" help:"Name of the endpoint. The endpoint of --webhook is called webhook."`
}

// Run sends a test message.
func (c *deliveriesTestCmd) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(js jetstream.JetStream) error {
		return send(ctx, js.Conn(), std, operator.Test, delivery.Request{Endpoint: c.Endpoint})
	})
}

// sendTimeout is more than the two attempts of a test message may take.
const sendTimeout = 10*time.Minute + 15*time.Second

// send asks a notifier to send a message, and reports the result.
func send(ctx context.Context, nc *nats.Conn, std streams, what operator.Delivery, req delivery.Request) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	record, err := operator.Deliver(ctx, nc, what, req)
	if err != nil {
		return err
	}
	if len(record.Attempts) == 0 {
		return errors.New("the notifier's answer has no attempt")
	}
	a := record.Attempts[len(record.Attempts)-1]
	if a.Error != "" {
		return fmt.Errorf("%s was not delivered to %s: %s", record.ID, req.Endpoint, a.Error)
	}
	_, err = fmt.Fprintf(std.out, "Delivered %s to %s in %d ms.\n", record.ID, req.Endpoint, a.Milliseconds)
	return err
}

// deliveries returns the delivery log, newest first.
func deliveries(ctx context.Context, js jetstream.JetStream) ([]delivery.Record, error) {
	all, err := stored[delivery.Record](ctx, js, schemas.BucketDeliveries)
	if err != nil {
		return nil, fmt.Errorf("read the delivery log: %w", err)
	}
	slices.SortFunc(all, func(a, b delivery.Record) int {
		return cmp.Or(b.Queued.Compare(a.Queued), strings.Compare(a.ID, b.ID), strings.Compare(a.Endpoint, b.Endpoint))
	})
	return all, nil
}
