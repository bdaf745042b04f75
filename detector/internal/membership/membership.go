// Package membership announces this detector to the others, tracks which of them are alive,
// and hands over updates of the records that they own.
//
// It does not know what is counted. Which detector owns a record is decided by package
// peers.
package membership

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/metrics"
	"github.com/unloop/unloop/detector/internal/peers"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

const (
	// handoverTimeout bounds the wait for a detector that was handed an update. One that
	// does not answer in time is handed nothing for a while.
	handoverTimeout = time.Second
	// maxID bounds the ids of detectors, which are part of a subject.
	maxID = 32
)

// errUnanswered says that another detector did not say whether it has counted.
var errUnanswered = errors.New("the detector that owns the record did not answer")

// Member is this detector among the others. Make it with New.
type Member struct {
	id      string
	conn    *natskit.Conn
	inbox   *natskit.Inbox
	peers   *peers.Peers
	metrics *metrics.Metrics
	// sent is the time of the newest announcement in Unix nanoseconds; 0 once it has
	// come back.
	sent atomic.Int64
	// roundTrip to the server in microseconds.
	roundTrip atomic.Uint32
}

// New returns the member with the given id.
func New(id string, conn *natskit.Conn, p *peers.Peers, m *metrics.Metrics) *Member {
	return &Member{id: id, conn: conn, inbox: natskit.NewInbox(conn, handoverTimeout), peers: p, metrics: m}
}

// Subject returns the subject of updates for the detector with the given id.
func Subject(id string) string { return schemas.SubjectDetectors + "." + schemas.Token(id) }

// Announce announces this detector to the others until the context ends.
// Its own announcements come back, which measures the round trip to the server.
func (m *Member) Announce(ctx context.Context) {
	tick := time.NewTicker(peers.Every)
	defer tick.Stop()
	for {
		m.announce(false)
		select {
		case <-tick.C:
		case <-ctx.Done():
			m.announce(true)
			return
		}
	}
}

func (m *Member) announce(leaving bool) {
	m.sent.Store(time.Now().UnixNano())
	body, err := proto.Marshal(&checkpb.Presence{Id: m.id, RoundTripUs: m.roundTrip.Load(), Leaving: leaving})
	if err == nil {
		_ = m.conn.Publish(schemas.SubjectDetectors, body) // the next one follows in a second
	}
}

// OnPresence takes an announcement. This detector announces itself to a new one.
func (m *Member) OnPresence(msg *nats.Msg) {
	var p checkpb.Presence
	if err := proto.Unmarshal(msg.Data, &p); err != nil || p.GetId() == "" || len(p.GetId()) > maxID {
		m.metrics.Malformed.Inc()
		return
	}
	if p.GetLeaving() {
		m.peers.Left(p.GetId())
		return
	}
	if p.GetId() == m.id {
		m.returned(time.Now())
	}
	first := m.peers.Heard(p.GetId(), time.Duration(p.GetRoundTripUs())*time.Microsecond)
	if first && p.GetId() != m.id {
		m.announce(false)
	}
}

// returned measures the round trip of the newest announcement. A busy process takes
// messages late, so a longer time changes the measure slowly.
func (m *Member) returned(now time.Time) {
	sent := m.sent.Swap(0)
	if sent == 0 {
		return
	}
	took := uint32(max(now.Sub(time.Unix(0, sent)).Microseconds(), 1))
	if before := m.roundTrip.Load(); before != 0 && took > before {
		const weight = 8
		took = before + (took-before)/weight
	}
	m.roundTrip.Store(took)
}

// Send hands a step to another detector and waits for its verdict. Gone says that the
// detector was not reached, so that it has counted nothing.
func (m *Member) Send(ctx context.Context, owner string, h *checkpb.Handover) (r *checkpb.HandoverReply, gone bool, err error) {
	m.metrics.HandedOver.Inc()
	if deadline, ok := ctx.Deadline(); ok {
		h.BudgetMs = uint32(max(time.Until(deadline).Milliseconds(), 1))
	}
	body, err := proto.Marshal(h)
	if err != nil {
		return nil, false, fmt.Errorf("encode handover: %w", err)
	}
	answered := make(chan error, 1)
	r = &checkpb.HandoverReply{}
	m.inbox.Request(&nats.Msg{Subject: Subject(owner), Data: body}, func(answer []byte, err error) {
		if err == nil {
			err = proto.Unmarshal(answer, r)
		} else {
			m.peers.Avoid(owner)
			gone = !errors.Is(err, natskit.ErrNoAnswer) // it may have counted
			err = errors.Join(errUnanswered, err)
		}
		answered <- err
	})
	err = <-answered
	return r, gone, err
}
