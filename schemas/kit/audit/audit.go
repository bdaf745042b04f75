// Package audit records the actions of operators in schemas.StreamAudit, and lists them.
//
// It does not know how an action is carried out.
package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
)

// timeout bounds the record of one action.
const timeout = 5 * time.Second

// Record stores an action.
func Record(ctx context.Context, js jetstream.JetStream, a schemas.Audit) error {
	if a.At.IsZero() {
		a.At = time.Now().UTC()
	}
	body, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("record %s in the audit: %w", a.Action, err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := js.Publish(ctx, a.Subject(), body); err != nil {
		return fmt.Errorf("record %s in the audit: %w", a.Action, err)
	}
	return nil
}

// fetchWait bounds the wait for stored actions.
const fetchWait = 2 * time.Second

// List returns the newest n actions, oldest first. It skips entries that can't be read.
func List(ctx context.Context, js jetstream.JetStream, n int) ([]schemas.Audit, error) {
	stream, err := js.Stream(ctx, schemas.StreamAudit)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", schemas.StreamAudit, err)
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 || n <= 0 {
		return nil, nil
	}
	from := state.FirstSeq
	if state.LastSeq >= uint64(n) {
		from = max(from, state.LastSeq-uint64(n)+1)
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from})
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", schemas.StreamAudit, err)
	}
	return read(ctx, consumer, state.LastSeq)
}

func read(ctx context.Context, consumer jetstream.Consumer, last uint64) ([]schemas.Audit, error) {
	msgs, err := consumer.Messages(jetstream.PullExpiry(fetchWait))
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", schemas.StreamAudit, err)
	}
	defer msgs.Stop()
	var all []schemas.Audit
	for {
		wait, cancel := context.WithTimeout(ctx, fetchWait)
		msg, err := msgs.Next(jetstream.NextContext(wait))
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return all, nil // the newest were removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read stream %s: %w", schemas.StreamAudit, err)
		}
		var a schemas.Audit
		if json.Unmarshal(msg.Data(), &a) == nil && a.Action != "" {
			all = append(all, a)
		}
		if meta, err := msg.Metadata(); err == nil && meta.Sequence.Stream >= last {
			return all, nil
		}
	}
}

// Actor returns the name of the process's user in the audit: USER@HOST.
func Actor() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}
