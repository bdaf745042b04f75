package operator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/status"
)

const (
	// partsFor bounds the wait for all replies, quiet the wait for the next one.
	partsFor = 800 * time.Millisecond
	quiet    = 150 * time.Millisecond
	// maxReplies and maxReply bound the number of replies and their size in bytes.
	maxReplies = 1000
	maxReply   = 256 << 10
)

// Parts asks all running parts for their status, and returns the answers that come in time.
func Parts(ctx context.Context, nc *nats.Conn) (replies []status.Status) {
	ctx, cancel := context.WithTimeout(ctx, partsFor)
	defer cancel()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil
	}
	defer func() { _ = sub.Unsubscribe() }() // a closed connection has no subscriptions
	if err := nc.PublishRequest(schemas.SubjectStatus, inbox, nil); err != nil {
		return nil
	}
	for len(replies) < maxReplies {
		msg, err := next(ctx, sub, len(replies) > 0)
		if err != nil {
			return replies
		}
		var s status.Status
		if len(msg.Data) <= maxReply && json.Unmarshal(msg.Data, &s) == nil && s.ID != "" {
			replies = append(replies, s)
		}
	}
	return replies
}

// next waits for a reply; if hurried, no longer than quiet.
func next(ctx context.Context, sub *nats.Subscription, hurried bool) (*nats.Msg, error) {
	if hurried {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, quiet)
		defer stop()
	}
	return sub.NextMsgWithContext(ctx)
}
