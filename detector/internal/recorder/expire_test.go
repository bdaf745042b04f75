package recorder

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// published returns the next events of the stream.
func published(t *testing.T, s *natstest.Server, n int) (all []event.Event) {
	t.Helper()
	consumer, err := s.JetStream().OrderedConsumer(t.Context(), schemas.StreamEvents, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		msg, err := consumer.Next(jetstream.FetchMaxWait(time.Minute))
		if err != nil {
			t.Fatalf("after %d events: %v", len(all), err)
		}
		var e event.Event
		if err := json.Unmarshal(msg.Data(), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// resolving runs the resolution of a recorder until the test ends.
func resolving(t *testing.T, r *Recorder) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.ResolveExpired(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func TestAnIncidentWithoutHitsIsResolvedOnceByWhicheverDetectorRuns(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	gone, first, second := process(t, s), process(t, s), process(t, s)
	price := 0.5
	f := found("aa", "prompt", time.Second)
	f.Saved.USD = &price
	id := record(t, gone, f)
	gone.announcing.Wait()
	stream, err := s.JetStream().Stream(t.Context(), natskit.BucketStream(schemas.BucketTimers))
	if err != nil {
		t.Fatal(err)
	}
	// No detector runs when the incident ends.
	for deadline := time.Now().Add(20 * time.Second); ; {
		msg, err := stream.GetLastMsgForSubject(t.Context(), timerSubject(timer{id, f.Key()}.name()))
		if err != nil {
			t.Fatal(err)
		}
		if msg.Header.Get(jetstream.MarkerReasonHeader) != "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the timer did not expire")
		}
		<-time.After(20 * time.Millisecond)
	}
	resolving(t, first)
	resolving(t, second)
	all := published(t, s, 2)
	if e := all[1]; all[0].Type != event.Detected || e.Type != event.Resolved || e.Data.LoopID != id || e.Data.Reason != event.ReasonExpired || e.Data.Saved.USD == nil {
		t.Errorf("events %+v", all)
	}
	if again := record(t, first, found("aa", "prompt", time.Minute)); again == id {
		t.Error("an incident that is over goes on")
	}
	first.announcing.Wait()
	if n := events(t, s); n != 3 {
		t.Errorf("%d events, want those of one incident and the beginning of another", n)
	}
}

// Hits after the time of an incident that nobody has resolved open another one, whose
// beginning follows the end of the first.
func TestAnIncidentThatNobodyResolvedEndsBeforeTheNextOneBegins(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r := process(t, s)
	f := found("aa", "prompt", time.Minute)
	first := record(t, r, f)
	r.announcing.Wait()
	r.Forget("") // a detector that starts anew
	f.At = f.At.Add(time.Hour)
	second := record(t, r, f)
	r.announcing.Wait()
	all := published(t, s, 3)
	if second == first || all[1].ID != first+".loop.resolved" || all[2].ID != second+".loop.detected" {
		t.Errorf("%s, then %s: %s, %s", first, second, all[1].ID, all[2].ID)
	}
	if in, _ := stored(t, s, "aa"); in.Former != nil || !in.Announced {
		t.Errorf("record %+v", in)
	}
}

func TestAReleaseIsAnEventAndAnIncidentThatGrowsAsWell(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r := process(t, s)
	f := found("aa", "prompt", time.Minute)
	id := record(t, r, f)
	r.announcing.Wait()
	f.Hits, f.RequestID = 1000, "r2"
	record(t, r, f)
	r.Flush(t.Context())
	r.announcing.Wait()
	if _, err := r.Release(t.Context(), id, func(context.Context, *checkpb.CounterRef, time.Duration) error { return nil }); err != nil {
		t.Fatal(err)
	}
	all := published(t, s, 3)
	if all[1].Type != event.Ongoing || all[1].Data.Requests != 1001 || all[2].Type != event.Resolved || all[2].Data.Reason != event.ReasonReleased {
		t.Errorf("events %+v", all)
	}
	if r.Open(f) != "" {
		t.Error("a released incident is open")
	}
}

// The timer of an incident that goes on is set again; an incident without one gets it.
func TestTimersFollowTheirIncidents(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r := process(t, s)
	f := found("aa", "prompt", time.Hour)
	id := record(t, r, f)
	r.announcing.Wait()
	stream, err := s.JetStream().Stream(t.Context(), natskit.BucketStream(schemas.BucketTimers))
	if err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]func() error{
		"anew":    func() error { return r.expire(t.Context(), timer{id, f.Key()}) },
		"adopted": func() error { return r.adopt(t.Context()) },
	} {
		if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(timerSubject(timer{id, f.Key()}.name()))); err != nil {
			t.Fatal(err)
		}
		if err := set(); err != nil {
			t.Fatal(err)
		}
		msg, err := stream.GetLastMsgForSubject(t.Context(), timerSubject(timer{id, f.Key()}.name()))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if ttl, err := time.ParseDuration(msg.Header.Get(jetstream.MsgTTLHeader)); err != nil || ttl < 55*time.Minute || ttl > 61*time.Minute {
			t.Errorf("%s: %s, %v", name, ttl, err)
		}
	}
	if err := r.expire(t.Context(), timer{"none", "live.default.none"}); err != nil {
		t.Errorf("without an incident: %v", err)
	}
}
