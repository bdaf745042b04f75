package recorder

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/openloop"
	"github.com/unloop/unloop/schemas/storepb"
)

// process is a recorder with a connection of its own, whose flushes the test calls.
func process(t *testing.T, s *natstest.Server) *Recorder {
	t.Helper()
	r := New(s.Service(), s.Layout(), prometheus.NewRegistry(), slog.New(slog.DiscardHandler), time.Now)
	t.Cleanup(r.announcing.Wait)
	return r
}

// found is a finding in a conversation that keeps its incident open for so long.
func found(conversation, detector string, window time.Duration) incident.Finding {
	return incident.Finding{
		Conversation: conversation, Policy: "default", Detector: detector, Action: checkpb.Action_ACTION_REJECT, Fingerprint: []byte(detector),
		Hits: 1, Count: 6, Threshold: 5, WindowSeconds: int(window / time.Second), Saved: event.Saved{Requests: 1}, At: time.Now(),
	}
}

func record(t *testing.T, r *Recorder, f incident.Finding) string {
	t.Helper()
	id, err := r.Record(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// stored returns a conversation's record and the TTL that it is stored with.
func stored(t *testing.T, s *natstest.Server, conversation string) (openloop.Record, time.Duration) {
	t.Helper()
	stream, err := s.JetStream().Stream(t.Context(), "KV_"+schemas.BucketIncidents)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(t.Context(), "$KV."+schemas.BucketIncidents+"."+schemas.IncidentKey(false, "default", conversation))
	if err != nil {
		t.Fatal(err)
	}
	var in openloop.Record
	if err := in.Parse(msg.Data); err != nil {
		t.Fatal(err)
	}
	ttl, err := time.ParseDuration(msg.Header.Get("Nats-TTL"))
	if err != nil {
		t.Fatal(err)
	}
	return in, ttl
}

// events counts what was announced.
func events(t *testing.T, s *natstest.Server) uint64 {
	t.Helper()
	stream, err := s.JetStream().Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.Msgs
}

// A finding that stands for two seconds ends no incident that stands for half an
// hour, whether this process or another one adds it.
func TestAShortFindingDoesNotEndALongIncident(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	first, second := process(t, s), process(t, s)
	id := record(t, first, found("aa", "tool", 30*time.Minute))
	for name, r := range map[string]*Recorder{"the same process": first, "another process": second} {
		record(t, r, found("aa", "request", 2*time.Second))
		r.Flush(t.Context())
		in, ttl := stored(t, s, "aa")
		if ttl < 29*time.Minute || in.LoopID != id {
			t.Errorf("%s: the incident is kept for %s as %s; want half an hour as %s", name, ttl, in.LoopID, id)
		}
		late := found("aa", "tool", 30*time.Minute)
		late.At = late.At.Add(10 * time.Minute)
		if _, known := r.gather(late.Key(), []incident.Finding{late}); !known {
			t.Errorf("%s: ten minutes later the incident is forgotten", name)
		}
	}
	first.announcing.Wait()
	second.announcing.Wait()
	if n := events(t, s); n != 1 {
		t.Errorf("%d events for one loop", n)
	}
}

func TestARecordOutlivesItsWindowByAFlush(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	record(t, process(t, s), found("aa", "request", 2*time.Second))
	if _, ttl := stored(t, s, "aa"); ttl < 3*time.Second {
		t.Errorf("stored for %s: what is found in its last half second would open a second incident", ttl)
	}
}

func TestAReleaseDropsNoOtherIncidentsUpdates(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r := process(t, s)
	released, other := found("aa", "prompt", time.Minute), found("bb", "prompt", time.Minute)
	id := record(t, r, released)
	record(t, r, other)
	for range 3 {
		record(t, r, released)
		record(t, r, other)
	}
	r.announcing.Wait()
	if _, err := r.Release(t.Context(), id, func(context.Context, *checkpb.CounterRef, time.Duration) error { return nil }); err != nil {
		t.Fatal(err)
	}
	record(t, r, other)
	r.Forget(id)
	r.Flush(t.Context())
	if in, _ := stored(t, s, "bb"); in.Saved.Requests != 5 {
		t.Errorf("the other incident has %d requests, want 5", in.Saved.Requests)
	}
	record(t, r, other)
	r.Forget("") // of a detector that does not tell which
	r.Flush(t.Context())
	if in, _ := stored(t, s, "bb"); in.Saved.Requests != 6 {
		t.Errorf("the other incident has %d requests, want 6", in.Saved.Requests)
	}
}

func TestAFlushThatIsBrokenOffLosesNothing(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r := process(t, s)
	record(t, r, found("aa", "prompt", time.Minute))
	record(t, r, found("aa", "prompt", time.Minute))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	r.Flush(over)
	r.Flush(t.Context())
	if in, _ := stored(t, s, "aa"); in.Saved.Requests != 2 {
		t.Errorf("%d requests are noted, want 2", in.Saved.Requests)
	}
}

func TestWhatCanNotBeStoredAtTheEndIsCounted(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r := process(t, s)
	record(t, r, found("aa", "prompt", time.Minute))
	r.announcing.Wait()
	record(t, r, found("aa", "prompt", time.Minute))
	record(t, r, found("aa", "tool", time.Minute))
	if err := s.JetStream().DeleteStream(t.Context(), "KV_"+schemas.BucketIncidents); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	r.Run(over)
	if lost := testutil.ToFloat64(r.lost); lost != 2 {
		t.Errorf("%g lost, want 2", lost)
	}
}

// JetStream refuses the record's next write, then takes it again.
func TestTheNoteThatAnEventIsStoredIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r := process(t, s)
	u := update{key: "live.default.aa", mark: newMark(), findings: []incident.Finding{found("aa", "prompt", time.Minute)}}
	_, rec, _, err := r.store(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	refuse(t, s, true)
	r.announce(t.Context(), newAnnouncement(u.key, event.Detected, rec))
	r.Flush(t.Context())
	refuse(t, s, false)
	if in, _ := stored(t, s, "aa"); in.Announced {
		t.Fatal("the note was stored already")
	}
	r.Flush(t.Context())
	if in, _ := stored(t, s, "aa"); !in.Announced {
		t.Error("the note was not tried again")
	}
	if n := events(t, s); n != 1 {
		t.Errorf("%d events", n)
	}
}

func refuse(t *testing.T, s *natstest.Server, writes bool) {
	t.Helper()
	js := s.JetStream()
	stream, err := js.Stream(t.Context(), "KV_"+schemas.BucketIncidents)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	if cfg.MaxMsgSize = -1; writes {
		cfg.MaxMsgSize = 1
	}
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// A release resets the counters that name the incident's conversation, too, where its
// record has no room for all of them.
func TestAReleaseResetsCountersThatTheRecordDoesNotList(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r := process(t, s)
	f := found("aa", "prompt", time.Minute)
	kv, err := s.JetStream().KeyValue(t.Context(), schemas.BucketCounters)
	if err != nil {
		t.Fatal(err)
	}
	const counters = 70
	id := ""
	for i := range counters {
		f.Fingerprint = bytes.Repeat([]byte{byte(i)}, 32)
		id = record(t, r, f)
		r.Flush(t.Context())
		body := &storepb.Counter{Incident: "aa"}
		if i%2 == 0 {
			body = &storepb.Counter{Parts: []*storepb.CounterPart{{State: body}}}
		}
		key := schemas.CounterKey(false, "prompt", "default", f.Fingerprint)
		if _, err := kv.Put(t.Context(), key, storepb.Append(nil, body)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := kv.Put(t.Context(), schemas.CounterKey(false, "prompt", "default", []byte{0xff}), storepb.Append(nil, &storepb.Counter{Incident: "bb"})); err != nil {
		t.Fatal(err)
	}
	refs, err := r.Release(t.Context(), id, func(context.Context, *checkpb.CounterRef, time.Duration) error { return nil })
	if err != nil || len(refs) != counters {
		t.Errorf("%d counters, %v", len(refs), err)
	}
	if _, err := r.Release(t.Context(), id, nil); !errors.Is(err, ErrNotOpen) {
		t.Errorf("released twice: %v", err)
	}
}

func TestAnIncidentThatIsResolvedIsAnnouncedAndOver(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r, m := process(t, s), NewMemory()
	f := found("aa", "circuit_breaker", time.Minute)
	if id := r.Open(f); id != "" {
		t.Errorf("open before: %s", id)
	}
	if err := r.Resolve(t.Context(), f, event.ReasonClosed); err != nil {
		t.Errorf("without an incident: %v", err)
	}
	id := record(t, r, f)
	r.announcing.Wait()
	own, err := m.Record(t.Context(), f)
	if err != nil || own != "loop-1" || m.Open(f) != own || r.Open(f) != id {
		t.Errorf("open: %s, %s in memory, %v", r.Open(f), own, err)
	}
	if err := r.Resolve(t.Context(), f, event.ReasonClosed); err != nil {
		t.Fatal(err)
	}
	if err := m.Resolve(t.Context(), f, event.ReasonClosed); err != nil {
		t.Fatal(err)
	}
	if r.Open(f) != "" || m.Open(f) != "" || len(m.Incidents()) != 1 || events(t, s) != 2 {
		t.Errorf("after its end: %q and %q are open, %d events", r.Open(f), m.Open(f), events(t, s))
	}
	if again := record(t, r, f); again == id {
		t.Error("an incident that is over goes on")
	}
}

// An incident whose record can't be written is tried again, up to a bound.
func TestWhatWaitsForTheStoreIsBounded(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r := process(t, s)
	if err := s.JetStream().DeleteStream(t.Context(), "KV_"+schemas.BucketIncidents); err != nil {
		t.Fatal(err)
	}
	f := found("aa", "prompt", time.Minute)
	if _, err := r.Record(t.Context(), f); err == nil || len(r.unsaved) != 1 {
		t.Errorf("%v, %d wait", err, len(r.unsaved))
	}
	if id := r.Open(f); id != "" {
		t.Errorf("open: %s", id)
	}
	if err := r.Resolve(t.Context(), f, event.ReasonClosed); err == nil {
		t.Error("resolved without a store")
	}
	if _, err := r.Release(t.Context(), "loop", nil); err == nil {
		t.Error("released without a store")
	}
	for range maxUnsaved {
		r.retry(update{findings: []incident.Finding{f}}, context.Canceled)
		r.announceLater(announcement{})
	}
	r.announceLater(announcement{})
	if lost := testutil.ToFloat64(r.lost); lost != 2 {
		t.Errorf("%g lost, want 2", lost)
	}
}

// An event that can't be stored for long is given up, so that the next finding
// announces its incident.
func TestAnEventThatIsNotStoredIsGivenUp(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r := process(t, s)
	f := found("aa", "prompt", time.Minute)
	record(t, r, f)
	r.announcing.Wait()
	rec, err := r.ledger.Read(t.Context(), f.Key())
	if err != nil {
		t.Fatal(err)
	}
	a := newAnnouncement(f.Key(), event.Detected, rec)
	r.unpublished(a, context.DeadlineExceeded)
	if len(r.unannounced) != 1 || len(r.open) != 1 {
		t.Errorf("%d wait, %d are open", len(r.unannounced), len(r.open))
	}
	a.giveUp = time.Now().Add(-time.Second)
	r.unpublished(a, context.DeadlineExceeded)
	if len(r.open) != 0 || testutil.ToFloat64(r.lost) != 1 {
		t.Errorf("%d are open, %g lost", len(r.open), testutil.ToFloat64(r.lost))
	}
}
