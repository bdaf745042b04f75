package detector_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// A check whose texts are compared keeps no other check of its message waiting.
func TestDecisionsComeAsTheyAreMade(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	compared, release := make(chan struct{}, 8), make(chan struct{})
	answer(t, s, func(int) *semanticpb.SemanticReply { compared <- struct{}{}; <-release; return similar })
	nc := s.Conn()
	inbox, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	send := func(batch *checkpb.CheckBatch) {
		t.Helper()
		batch.BudgetMs = uint32(patience.Milliseconds())
		body, err := proto.Marshal(batch)
		if err == nil {
			err = nc.PublishRequest(schemas.SubjectCheck, inbox.Subject, body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	checks := []*checkpb.Check{meaningCheck(), promptCheck("a"), promptCheck("b")}
	// sent returns the first part of an answer. A machine under load looks like a stall.
	sent := func(batch *checkpb.CheckBatch) *checkpb.DecisionBatch {
		t.Helper()
		for {
			send(batch)
			if part := nextPart(t, inbox); !stalled(part) {
				return part
			}
		}
	}
	first := sent(&checkpb.CheckBatch{Checks: checks, Parts: true})
	if diff := cmp.Diff([]uint32{1, 2}, first.GetChecks()); diff != "" || !first.GetMore() || first.GetDecisions()[0].GetHitCounts()[0] != 1 {
		t.Errorf("first part %v (-want +got):\n%s", first, diff)
	}
	if part := sent(&checkpb.CheckBatch{Checks: []*checkpb.Check{meaningCheck(), meaningCheck()}, Parts: true}); !part.GetMore() || len(part.GetDecisions()) != 0 {
		t.Errorf("before a comparison of two: %v", part)
	}
	send(&checkpb.CheckBatch{Checks: checks[:2]}) // of a gateway that takes one answer
	for range 3 {
		<-compared
		release <- struct{}{}
	}
	close(release)
	decided, last := 0, 0
	for last < 3 {
		part := nextPart(t, inbox)
		if stalled(part) {
			send(&checkpb.CheckBatch{Checks: checks[:2]})
			continue
		}
		decided += len(part.GetDecisions())
		if !part.GetMore() {
			last++
		}
	}
	if decided != 1+2+2 {
		t.Errorf("%d decisions", decided)
	}
}

// stalled reports whether a detector refused a message since it had no processor for a while.
func stalled(part *checkpb.DecisionBatch) bool {
	return len(part.GetDecisions()) > 0 && part.GetDecisions()[0].GetError() == checkpb.ErrorStalled
}

func nextPart(t *testing.T, from *nats.Subscription) *checkpb.DecisionBatch {
	t.Helper()
	msg, err := from.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	var part checkpb.DecisionBatch
	if err := proto.Unmarshal(msg.Data, &part); err != nil {
		t.Fatal(err)
	}
	return &part
}

// Whichever detector is told that a call failed and whichever is asked about its replay:
// once the first one has answered, the replay does not count.
func TestAReplayDoesNotCountOnceTheOutcomeIsAcknowledged(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	for range 3 {
		startDetector(t, s)
	}
	nc, check := s.Conn(), promptCheck("failing")
	check.Counters[0].Steps[0].At = 1000
	for n := range 60 {
		if d := ask(t, nc, check)[0]; d.GetHitCounts()[0] != uint32(n+1) {
			t.Fatalf("call %d: %v", n, d)
		}
		body, err := proto.Marshal(checkpb.OutcomeOf(check))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Request(schemas.SubjectOutcome, body, patience); err != nil {
			t.Fatal(err)
		}
		if d := ask(t, nc, check)[0]; d.GetHitCounts()[0] != uint32(n+1) {
			t.Fatalf("replay of call %d: %v", n, d)
		}
	}
}
