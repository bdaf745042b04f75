package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
)

// Delivery is a request for notifiers, named by its subject.
type Delivery string

// The requests for notifiers.
const (
	// Resend makes one more attempt at a message.
	Resend Delivery = schemas.SubjectResend
	// Test sends a test message.
	Test Delivery = schemas.SubjectTestSend
	// Enable enables a disabled endpoint.
	Enable Delivery = schemas.SubjectEnable
)

// Errors of Deliver.
var (
	// ErrNoNotifier means that no notifier with endpoints is running.
	ErrNoNotifier = errors.New("no notifier with endpoints is running on this NATS server")
	// ErrUnknown means that no endpoint or message has the given name.
	ErrUnknown = errors.New("not found")
)

// Deliver asks a notifier for a delivery, and returns its log record. The answer comes after
// the attempt, for which the context should leave time.
func Deliver(ctx context.Context, nc *nats.Conn, what Delivery, req delivery.Request) (delivery.Record, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return delivery.Record{}, fmt.Errorf("ask a notifier: %w", err)
	}
	answer, err := nc.RequestWithContext(ctx, string(what), body)
	if errors.Is(err, nats.ErrNoResponders) {
		return delivery.Record{}, ErrNoNotifier
	}
	if err != nil {
		return delivery.Record{}, fmt.Errorf("ask a notifier: %w", err)
	}
	var reply delivery.Reply
	if err := json.Unmarshal(answer.Data, &reply); err != nil {
		return delivery.Record{}, fmt.Errorf("read the notifier's answer: %w", err)
	}
	if reply.Error != "" {
		return delivery.Record{}, refused(reply.Error)
	}
	if reply.Record == nil {
		return delivery.Record{Endpoint: req.Endpoint, ID: req.ID}, nil
	}
	return *reply.Record, nil
}

// refused returns the error for a notifier's error text.
func refused(text string) error {
	for _, unknown := range []string{delivery.ErrorNoEndpoint, delivery.ErrorNoMessage} {
		if strings.HasPrefix(text, unknown) {
			return fmt.Errorf("%w: %s", ErrUnknown, text)
		}
	}
	return errors.New(text)
}
