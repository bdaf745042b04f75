package handover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/metrics"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/fleet"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// timeout bounds the wait for a detector that was handed an update. A detector that does not
// answer in time, or refuses, is avoided for a while.
const timeout = time.Second

// errUnanswered says that another detector did not say whether it has counted.
var errUnanswered = errors.New("the detector that owns the record did not answer")

// Sender hands updates to other detectors. Make it with NewSender.
type Sender struct {
	inbox   *natskit.Inbox
	fleet   *fleet.Fleet
	metrics *metrics.Metrics
}

// NewSender returns a sender.
func NewSender(conn *natskit.Conn, f *fleet.Fleet, m *metrics.Metrics) *Sender {
	return &Sender{inbox: natskit.NewInbox(conn, timeout), fleet: f, metrics: m}
}

// Subject returns the subject of updates for the detector with the given name.
func Subject(name string) string { return schemas.SubjectDetectors + "." + schemas.Token(name) }

// Send hands a step to another detector and waits for its verdict. Gone says that the
// detector was not reached, so that it has counted nothing.
func (s *Sender) Send(ctx context.Context, owner string, h *checkpb.Handover) (r *checkpb.HandoverReply, gone bool, err error) {
	s.metrics.HandedOver.Inc()
	if deadline, ok := ctx.Deadline(); ok {
		h.BudgetMs = uint32(max(time.Until(deadline).Milliseconds(), 1))
	}
	body, err := proto.Marshal(h)
	if err != nil {
		return nil, false, fmt.Errorf("encode handover: %w", err)
	}
	answered := make(chan error, 1)
	r = &checkpb.HandoverReply{}
	s.inbox.Request(&nats.Msg{Subject: Subject(owner), Data: body}, func(answer []byte, err error) {
		if err == nil {
			err = proto.Unmarshal(answer, r)
		} else {
			s.fleet.Avoid(owner, hot)
			gone = !errors.Is(err, natskit.ErrNoAnswer) // it may have counted
			err = errors.Join(errUnanswered, err)
		}
		answered <- err
	})
	err = <-answered
	return r, gone, err
}
