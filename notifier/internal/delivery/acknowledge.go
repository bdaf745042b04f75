package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ackTimeout bounds the wait for JetStream to confirm an acknowledgement.
const ackTimeout = 2 * time.Second

// acknowledge reports a message's disposition to JetStream. After an error, JetStream
// delivers the message again when the consumer's AckWait is over.
func acknowledge(ctx context.Context, msg jetstream.Msg, v disposition) error {
	switch v.result {
	case Delivered:
		// Confirmed, because a lost acknowledgement is a second delivery, and
		// also at the end of the process, when the context has ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackTimeout)
		defer cancel()
		if err := msg.DoubleAck(ctx); err != nil {
			return fmt.Errorf("acknowledge event: %w", err)
		}
	case Retried, Interrupted:
		if err := msg.NakWithDelay(v.delay); err != nil {
			return fmt.Errorf("return event for a later attempt: %w", err)
		}
	case Rejected, Expired, Invalid:
		if err := msg.TermWithReason(string(v.result)); err != nil {
			return fmt.Errorf("drop event: %w", err)
		}
	}
	return nil
}
