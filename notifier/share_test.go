package notifier_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// boundNotifications gives what endpoints are owed room for so many bytes.
func boundNotifications(t *testing.T, js jetstream.JetStream, bytes int64) {
	t.Helper()
	stream, err := js.Stream(t.Context(), natskit.BucketStream(schemas.BucketNotifications))
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.MaxBytes = bytes
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// publishLoop puts an event of a loop on the stream.
func publishLoop(t *testing.T, js jetstream.JetStream, typ event.Type, loop string) {
	t.Helper()
	e := event.New(typ, loop+"."+string(typ), time.Now())
	e.Data.LoopID, e.Data.Policy, e.Data.FirstSeen, e.Data.LastSeen, e.Data.Findings = loop, "p", e.Timestamp, e.Timestamp, []event.Finding{}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), e.Subject(), body); err != nil {
		t.Fatal(err)
	}
}

// of returns the sum of a metric over the series that have all these labels' values.
func (r *running) of(t *testing.T, name string, labels ...string) (value float64) {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			text := m.String()
			all := f.GetName() == name
			for _, l := range labels {
				all = all && strings.Contains(text, `"`+l+`"`)
			}
			if all {
				value += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return value
}

// awaitTakenIn waits until all endpoints have taken all events in.
func awaitTakenIn(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	stream, err := js.Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		waiting := uint64(0)
		for consumer := range stream.ListConsumers(t.Context()).Info() {
			waiting += consumer.NumPending + uint64(consumer.NumAckPending)
		}
		if waiting == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d events were not taken in", waiting)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// An endpoint that takes nothing fills its own share of the bucket. Its other messages
// become dead letters, and another endpoint gets each of its messages meanwhile.
func TestADeadEndpointTakesNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	js := s.JetStream()
	const room = 512 << 10
	boundNotifications(t, js, room)
	healthy := newReceiver(t, nil)
	dead := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, _ delivered) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	cfg := testConfig(healthy.URL)
	cfg.WebhookTo = []string{dead.URL}
	cfg.WebhookRetry = []time.Duration{time.Hour, time.Hour}
	r := start(t, s.Conn(), cfg)
	r.waitReady(t)
	const loops = 300
	for i := range loops {
		publishLoop(t, js, event.Detected, fmt.Sprint("loop-", i))
		publishLoop(t, js, event.Resolved, fmt.Sprint("loop-", i))
	}
	got := map[string]bool{}
	for len(got) < 2*loops {
		got[receive(t, healthy.got).id()] = true
	}
	deadLetters, err := js.Stream(t.Context(), schemas.StreamDeadLetters)
	if err != nil {
		t.Fatal(err)
	}
	awaitTakenIn(t, js)
	info, err := deadLetters.Info(t.Context(), jetstream.WithSubjectFilter(schemas.SubjectDeadLetter+".>"))
	if err != nil {
		t.Fatal(err)
	}
	if n := info.State.Subjects[schemas.DeadLetterSubject("webhook")]; n > 0 || info.State.Msgs == 0 {
		t.Errorf("%d dead letters of the healthy endpoint, %d in all", n, info.State.Msgs)
	}
	if counted := r.of(t, "unloop_notifier_dead_letters_total", "full"); counted != float64(info.State.Msgs) {
		t.Errorf("%g dead letters are counted, %d are stored", counted, info.State.Msgs)
	}
	if part := r.of(t, "unloop_notifier_share_taken"); part < 1 {
		t.Errorf("a part of %g of both shares is taken", part)
	}
	stream, err := js.Stream(t.Context(), natskit.BucketStream(schemas.BucketNotifications))
	if err != nil {
		t.Fatal(err)
	}
	if bytes := stream.CachedInfo().State.Bytes; bytes > room*9/10 {
		t.Errorf("%d of %d bytes are taken", bytes, room)
	}
	if err := r.Readiness().Err(); err != nil {
		t.Errorf("not ready: %v", err)
	}
}

// What a full bucket has no room for becomes a dead letter, and holds up nothing.
func TestAFullBucketMakesDeadLetters(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	js := s.JetStream()
	hook := newReceiver(t, nil)
	r := start(t, s.Conn(), testConfig(hook.URL))
	r.waitReady(t)
	boundNotifications(t, js, 1)
	publishLoop(t, js, event.Detected, "loop")
	deadLetters, err := js.Stream(t.Context(), schemas.StreamDeadLetters)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		msg, err := deadLetters.GetLastMsgForSubject(t.Context(), schemas.DeadLetterSubject("webhook"))
		if err == nil {
			if !strings.Contains(string(msg.Data), "full") {
				t.Errorf("dead letter %s", msg.Data)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no dead letter")
		}
		<-time.After(10 * time.Millisecond)
	}
	boundNotifications(t, js, 1<<20)
	publishLoop(t, js, event.Detected, "next")
	if id := receive(t, hook.got).id(); id != "next."+string(event.Detected) {
		t.Errorf("delivered is %s", id)
	}
}
