package detector_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/openloop"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// side is a server with detectors.
type side struct {
	server    *natstest.Server
	nc        *nats.Conn
	detectors []process
	names     []string
	// incidents are the records by their keys, and found is what the decisions say of each
	// loop.
	incidents map[string]openloop.Record
	found     map[string]*found
	events    map[string][]event.Event
	updates   jetstream.KeyWatcher
	announced jetstream.MessagesContext
}

// found is the number of requests in which a loop was found, and the newest counts of its
// detectors.
type found struct {
	requests int
	counts   map[string]int
	stored   bool
}

func newSide(t *testing.T, c *clock, n int) *side {
	t.Helper()
	s := &side{server: natstest.Start(t), incidents: map[string]openloop.Record{}, found: map[string]*found{}, events: map[string][]event.Event{}}
	for range n {
		s.detectors = append(s.detectors, startDetector(t, s.server, detector.WithClock(c.now)))
	}
	s.nc = s.server.Conn()
	s.names = detectorNames(t, s.nc, n)
	kv, err := s.server.JetStream().KeyValue(t.Context(), schemas.BucketIncidents)
	if err == nil {
		s.updates, err = kv.WatchAll(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := s.server.JetStream().OrderedConsumer(t.Context(), schemas.StreamEvents, jetstream.OrderedConsumerConfig{})
	if err == nil {
		s.announced, err = consumer.Messages()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.announced.Stop)
	worker(t, s.nc)
	return s
}

// detectorNames waits for the beats of n detectors and returns their names.
func detectorNames(t *testing.T, nc *nats.Conn, n int) (all []string) {
	t.Helper()
	beats := make(chan *nats.Msg, 64)
	sub, err := nc.ChanSubscribe(schemas.SubjectBeat, beats)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for len(all) < n {
		select {
		case m := <-beats:
			if name := string(m.Data); !slices.Contains(all, name) {
				all = append(all, name)
			}
		case <-time.After(patience):
			t.Fatalf("%d of %d detectors beat", len(all), n)
		}
	}
	return all
}

// worker answers as an embedding worker to which equal texts are similar.
func worker(t *testing.T, nc *nats.Conn) {
	t.Helper()
	seen := map[string]int{}
	_, err := nc.QueueSubscribe(schemas.SubjectSemantic, schemas.QueueEmbedworker, func(m *nats.Msg) {
		var r semanticpb.SemanticRequest
		if proto.Unmarshal(m.Data, &r) != nil {
			return
		}
		reply := &semanticpb.SemanticReply{Streak: semanticpb.Streak_STREAK_POSSIBLE}
		if !r.GetStreakFollows() {
			text := r.GetScopeKey() + r.GetText()
			reply = &semanticpb.SemanticReply{Judged: true, Compared: 3, Detected: seen[text] > 1, MaxSimilarity: 0.97}
			seen[text]++
		}
		body, err := proto.Marshal(reply)
		if err == nil {
			_ = m.Respond(body)
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ask asks one of the detectors by its name, as gateways do.
func (s *side) ask(rt *rapid.T, at int, check *checkpb.Check) *checkpb.Decision {
	body, err := proto.Marshal(&checkpb.CheckBatch{Checks: []*checkpb.Check{check}, BudgetMs: uint32(patience.Milliseconds())})
	if err != nil {
		rt.Fatal(err)
	}
	for {
		var batch checkpb.DecisionBatch
		s.request(rt, schemas.DetectorSubject(s.names[at%len(s.names)]), body, &batch)
		if d := batch.GetDecisions()[0]; d.GetError() != checkpb.ErrorStalled { // a machine under load looks like a stall
			return d
		}
	}
}

func (s *side) request(rt *rapid.T, subject string, body []byte, reply proto.Message) {
	m, err := s.nc.Request(subject, body, patience)
	if err == nil {
		err = proto.Unmarshal(m.Data, reply)
	}
	if err != nil {
		rt.Fatal(err)
	}
}

func (s *side) handedOver(t *testing.T) (n float64) {
	t.Helper()
	for _, d := range s.detectors {
		n += d.counted(t, "unloop_detector_handed_over_total")
	}
	return n
}

// note notes what a decision says of loops.
func (s *side) note(d *checkpb.Decision) {
	ids := map[string]bool{}
	for _, id := range loopIDs(d) {
		ids[*id] = *id != ""
	}
	for id, named := range ids {
		if !named {
			continue
		}
		if s.found[id] == nil {
			s.found[id] = &found{counts: map[string]int{}}
		}
		s.found[id].requests++
	}
	for _, f := range d.GetFindings() {
		s.found[f.GetLoopId()].counts[f.GetDetector()+f.GetRule()+hex.EncodeToString(f.GetFingerprint())] = int(f.GetHitCount())
	}
}

// missing says what the open incidents lack of what was found; "" for nothing.
func (s *side) missing() string {
	for id, known := range s.found {
		if !known.stored {
			return "loop " + id
		}
	}
	for _, in := range s.incidents {
		known := s.found[in.LoopID]
		if known == nil {
			continue
		}
		counts := map[string]int{}
		for _, f := range in.Findings {
			counts[f.Detector+f.Rule+f.Fingerprint] = f.HitCount
		}
		for name, n := range known.counts {
			if counts[name] != n {
				return fmt.Sprintf("count %d of %s, has %d", n, name, counts[name])
			}
		}
		if in.Requests != known.requests {
			return fmt.Sprintf("%d requests, has %d", known.requests, in.Requests)
		}
	}
	return ""
}

// event waits for an event of a loop.
func (s *side) event(rt *rapid.T, loopID string, typ event.Type) event.Event {
	for {
		if i := slices.IndexFunc(s.events[loopID], func(e event.Event) bool { return e.Type == typ }); i >= 0 {
			return s.events[loopID][i]
		}
		m, err := s.announced.Next(jetstream.NextMaxWait(patience))
		if err != nil {
			rt.Fatalf("%s of %s did not come: %v", typ, loopID, err)
		}
		e, err := event.Parse(m.Data())
		if err != nil {
			rt.Fatal(err)
		}
		s.events[e.Data.LoopID] = append(s.events[e.Data.LoopID], e)
	}
}
