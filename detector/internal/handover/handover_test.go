package handover_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/handover"
	"github.com/unloop/unloop/detector/internal/metrics"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/fleet"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// patience bounds the wait for what a healthy machine does at once.
const patience = 30 * time.Second

// sender is a detector on a server that hands updates to others.
type sender struct {
	*handover.Sender
	fleet *fleet.Fleet
	nc    *nats.Conn
}

func newSender(t *testing.T) *sender {
	t.Helper()
	s := natstest.Start(t)
	f := fleet.New(time.Now)
	return &sender{Sender: handover.NewSender(s.Service(), f, metrics.New(prometheus.NewRegistry())), fleet: f, nc: s.Conn()}
}

func TestUpdatesAreHandedToTheirDetector(t *testing.T) {
	t.Parallel()
	m := newSender(t)
	handed := make(chan *checkpb.Handover, 1)
	verdict := &checkpb.HandoverReply{Verdict: []byte("3")}
	if _, err := m.nc.Subscribe(handover.Subject("other"), func(msg *nats.Msg) {
		var h checkpb.Handover
		if proto.Unmarshal(msg.Data, &h) == nil {
			handed <- &h
		}
		body, _ := proto.Marshal(verdict) // a fixed message
		_ = msg.Respond(body)
	}); err != nil {
		t.Fatal(err)
	}
	if err := m.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, gone, err := m.Send(ctx, "other", &checkpb.Handover{Check: &checkpb.Check{}})
	if err != nil || gone || string(r.GetVerdict()) != "3" {
		t.Errorf("verdict %v, gone %t, %v", r, gone, err)
	}
	if budget := (<-handed).GetBudgetMs(); budget == 0 || budget > uint32(patience.Milliseconds()) {
		t.Errorf("budget %d ms", budget)
	}
	if _, gone, err = m.Send(t.Context(), "nobody", &checkpb.Handover{}); !gone || err == nil {
		t.Errorf("a detector that is not there: gone %t, %v", gone, err)
	}
	if _, gone, err = m.Send(t.Context(), "other", &checkpb.Handover{Check: &checkpb.Check{RequestId: "\xff"}}); gone || err == nil {
		t.Errorf("an update that can't be sent: gone %t, %v", gone, err)
	}
}

// A detector that takes an update without an answer may have counted, and is handed nothing
// for a while.
func TestADetectorWithoutAnAnswerIsNotGone(t *testing.T) {
	t.Parallel()
	m := newSender(t)
	if _, err := m.nc.Subscribe(handover.Subject("silent"), func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := m.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	m.fleet.HearAt("silent", time.Now().Add(patience)) // it goes on beating
	if _, gone, err := m.Send(t.Context(), "silent", &checkpb.Handover{}); gone || err == nil {
		t.Errorf("gone %t, %v", gone, err)
	}
	if c := m.fleet.Choose(1); c.N != 0 {
		t.Errorf("%s still owns keys", c.First)
	}
}
