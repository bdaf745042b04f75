package membership_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/membership"
	"github.com/unloop/unloop/detector/internal/metrics"
	"github.com/unloop/unloop/detector/internal/peers"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// patience bounds the wait for what a healthy machine does at once.
const patience = 30 * time.Second

// member is a detector on a server, and what is announced there.
type member struct {
	*membership.Member
	peers     *peers.Peers
	metrics   *metrics.Metrics
	nc        *nats.Conn
	announced chan *checkpb.Presence
}

func newMember(t *testing.T, s *natstest.Server) *member {
	t.Helper()
	m := &member{
		peers: peers.New("self", time.Now), metrics: metrics.New(prometheus.NewRegistry()), nc: s.Conn(),
		announced: make(chan *checkpb.Presence, 64),
	}
	conn := s.Service()
	m.Member = membership.New("self", conn, m.peers, m.metrics)
	if _, err := conn.Subscribe(schemas.SubjectDetectors, func(msg *nats.Msg) {
		m.OnPresence(msg)
		var p checkpb.Presence
		if proto.Unmarshal(msg.Data, &p) == nil {
			m.announced <- &p
		}
	}); err != nil {
		t.Fatal(err)
	}
	conn.Flush(patience)
	return m
}

// wait returns the next announcement that is as wanted.
func (m *member) wait(t *testing.T, wanted func(*checkpb.Presence) bool) {
	t.Helper()
	for {
		select {
		case p := <-m.announced:
			if wanted(p) {
				return
			}
		case <-time.After(patience):
			t.Fatal("the announcement did not come")
		}
	}
}

// publish announces another detector.
func (m *member) publish(t *testing.T, p *checkpb.Presence) {
	t.Helper()
	body, err := proto.Marshal(p)
	if err == nil {
		err = m.nc.Publish(schemas.SubjectDetectors, body)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestADetectorAnnouncesItselfWithItsRoundTripUntilItLeaves(t *testing.T) {
	t.Parallel()
	m := newMember(t, natstest.Start(t))
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Announce(ctx)
	}()
	m.wait(t, func(p *checkpb.Presence) bool { return p.GetId() == "self" && p.GetRoundTripUs() > 0 })
	m.wait(t, func(p *checkpb.Presence) bool { return p.GetRoundTripUs() > 0 })
	leave()
	<-done
	m.wait(t, (*checkpb.Presence).GetLeaving)
}

// A new detector is greeted at once, and owns keys until it leaves.
func TestOtherDetectorsAreNoted(t *testing.T) {
	t.Parallel()
	m := newMember(t, natstest.Start(t))
	m.publish(t, &checkpb.Presence{Id: "other", RoundTripUs: 100})
	m.wait(t, func(p *checkpb.Presence) bool { return p.GetId() == "self" })
	m.peers.Contended("bucket", "key")
	if owner := m.peers.Owner("bucket", "key"); owner != "other" && owner != "" {
		t.Errorf("owner %q", owner)
	}
	m.publish(t, &checkpb.Presence{Id: "other", Leaving: true})
	m.wait(t, (*checkpb.Presence).GetLeaving)
	if owner := m.peers.Owner("bucket", "key"); owner != "" {
		t.Errorf("a detector that left owns a key: %q", owner)
	}
	m.publish(t, &checkpb.Presence{Id: "an id that is much longer than the id of any detector"})
	m.wait(t, func(p *checkpb.Presence) bool { return len(p.GetId()) > 32 })
	if n := testutil.ToFloat64(m.metrics.Malformed); n != 1 {
		t.Errorf("%g malformed announcements", n)
	}
}

func TestUpdatesAreHandedToTheirDetector(t *testing.T) {
	t.Parallel()
	m := newMember(t, natstest.Start(t))
	handed := make(chan *checkpb.Handover, 1)
	verdict := &checkpb.HandoverReply{Verdict: []byte("3")}
	if _, err := m.nc.Subscribe(membership.Subject("other"), func(msg *nats.Msg) {
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

// A detector that takes an update without an answer may have counted.
func TestADetectorWithoutAnAnswerIsNotGone(t *testing.T) {
	t.Parallel()
	m := newMember(t, natstest.Start(t))
	if _, err := m.nc.Subscribe(membership.Subject("silent"), func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := m.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, gone, err := m.Send(t.Context(), "silent", &checkpb.Handover{}); gone || err == nil {
		t.Errorf("gone %t, %v", gone, err)
	}
}
