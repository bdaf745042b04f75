package recorder

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// bound gives a bucket room for so many bytes.
func bound(t *testing.T, s *natstest.Server, bucket string, bytes int64) {
	t.Helper()
	js := s.JetStream()
	stream, err := js.Stream(t.Context(), natskit.BucketStream(bucket))
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.MaxBytes = bytes
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// awaitMessages waits until a bucket has so many messages.
func awaitMessages(t *testing.T, s *natstest.Server, bucket string, want uint64) {
	t.Helper()
	stream, err := s.JetStream().Stream(t.Context(), natskit.BucketStream(bucket))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Msgs == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has %d messages, want %d", bucket, info.State.Msgs, want)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// fill opens incidents until the bucket takes no more, and returns the ids of those that
// it took.
func fill(t *testing.T, r *Recorder, window time.Duration) (ids map[string]bool) {
	t.Helper()
	ids = map[string]bool{}
	for i := range 1000 {
		id, err := r.Record(t.Context(), found(fmt.Sprintf("%032x", i), "prompt", window))
		if natskit.IsFull(err) {
			return ids
		}
		if err != nil {
			t.Fatal(err)
		}
		ids[id] = true
	}
	t.Fatal("the bucket is never full")
	return nil
}

// A bucket that is full to the last byte refuses new incidents. Each one that is open is
// resolved, and leaves nothing behind; then there is room again.
func TestAFullBucketRefusesNewIncidentsAndResolvesThoseThatAreOpen(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	bound(t, s, schemas.BucketIncidents, 64<<10)
	r := process(t, s)
	r.room = natskit.NewRoom(s.Service(), schemas.BucketLimits) // it takes the bucket to have room
	ids := fill(t, r, 2*time.Second)
	if refused := testutil.ToFloat64(r.refused); refused != 1 || len(r.unsaved) != 0 {
		t.Errorf("%g refused, %d to be tried again; want 1 and 0", refused, len(r.unsaved))
	}
	r.announcing.Wait()
	resolving(t, r)
	resolved := map[string]bool{}
	for _, e := range published(t, s, 2*len(ids)) {
		if e.Type == event.Resolved {
			resolved[e.Data.LoopID] = true
		}
	}
	if len(resolved) != len(ids) {
		t.Errorf("%d of %d open incidents were resolved", len(resolved), len(ids))
	}
	awaitMessages(t, s, schemas.BucketIncidents, 0)
	awaitMessages(t, s, schemas.BucketTimers, 0)
	record(t, r, found("ff", "prompt", time.Minute))
}

// What is left of a nearly full bucket is kept for incidents that are open: they grow.
func TestOpenIncidentsGrowInABucketThatTakesNoNewOnes(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	bound(t, s, schemas.BucketIncidents, 256<<10)
	r := process(t, s)
	f := found("aa", "prompt", time.Minute)
	id := record(t, r, f)
	r.announcing.Wait()
	for { // other detectors fill it
		stream, err := s.JetStream().Stream(t.Context(), natskit.BucketStream(schemas.BucketIncidents))
		if err != nil {
			t.Fatal(err)
		}
		info := stream.CachedInfo()
		if natskit.Fullness(info) >= natskit.FullFrom {
			break
		}
		if _, err := s.JetStream().Publish(t.Context(), "$KV."+schemas.BucketIncidents+"."+fmt.Sprint("live.p.", info.State.Msgs), make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
	}
	r.room = natskit.NewRoom(s.Service(), schemas.BucketIncidents) // it looks at once
	if _, err := r.Record(t.Context(), found("bb", "prompt", time.Minute)); !natskit.IsFull(err) {
		t.Errorf("a new incident: %v", err)
	}
	r.Forget("") // a detector that starts anew
	f.Detector = "tool"
	if again := record(t, r, f); again != id {
		t.Errorf("the open incident is %s, want %s", again, id)
	}
	if in, _ := stored(t, s, "aa"); len(in.Findings) != 2 {
		t.Errorf("%d findings of the open incident, want 2", len(in.Findings))
	}
}

// An update that a full bucket refuses holds up no other one.
func TestAnUpdateWithoutRoomHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r := process(t, s)
	large, small := found("aa", "prompt", time.Minute), found("bb", "prompt", time.Minute)
	record(t, r, large)
	record(t, r, small)
	r.announcing.Wait()
	for _, f := range []*incident.Finding{&large, &small} {
		record(t, r, *f)
	}
	large.Detector, large.Excerpt = "tool", fmt.Sprintf("%0100000d", 1)
	record(t, r, large)
	bound(t, s, schemas.BucketIncidents, 32<<10)
	r.Flush(t.Context())
	if in, _ := stored(t, s, "bb"); in.Requests != 2 {
		t.Errorf("the other incident has %d requests, want 2", in.Requests)
	}
	if len(r.unsaved) != 1 {
		t.Errorf("%d updates wait, want 1", len(r.unsaved))
	}
}

// An incident that an operator releases needs its timer no more.
func TestTheTimerOfAReleasedIncidentGoes(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r := process(t, s)
	id := record(t, r, found("aa", "circuit_breaker", 365*24*time.Hour))
	r.announcing.Wait()
	awaitMessages(t, s, schemas.BucketTimers, 1)
	resolving(t, r)
	if _, err := r.Release(t.Context(), id, func(context.Context, *checkpb.CounterRef, time.Duration) error { return nil }); err != nil {
		t.Fatal(err)
	}
	awaitMessages(t, s, schemas.BucketTimers, 0)
}

// Timers that are lost while detectors run are set again.
func TestLostTimersAreSetAgain(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r := process(t, s)
	id := record(t, r, found("aa", "prompt", 2*time.Second))
	r.announcing.Wait()
	resolving(t, r)
	if err := s.JetStream().DeleteStream(t.Context(), natskit.BucketStream(schemas.BucketTimers)); err != nil {
		t.Fatal(err)
	}
	if all := published(t, s, 2); all[1].ID != id+".loop.resolved" {
		t.Errorf("events %+v", all)
	}
}
