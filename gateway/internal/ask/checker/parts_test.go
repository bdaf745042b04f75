package checker

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

func decisionOf(id string) *checkpb.Decision {
	return &checkpb.Decision{Findings: []*checkpb.Finding{{LoopId: id}}}
}

// Each check has the first decision that is made of it, in whatever parts they come; a
// check that the last part leaves out has none.
func TestAnswersToABatch(t *testing.T) {
	t.Parallel()
	a, b, stalled := decisionOf("a"), decisionOf("b"), &checkpb.Decision{Error: checkpb.ErrorStalled}
	c := newChecker(natstest.StartBare(t).Service(), patience, time.Now)
	for name, test := range map[string]struct {
		parts []*checkpb.DecisionBatch
		want  []string
	}{
		"all at once":        {[]*checkpb.DecisionBatch{{Decisions: []*checkpb.Decision{a, b}}}, []string{"a", "b"}},
		"one by one":         {[]*checkpb.DecisionBatch{{More: true}, {Checks: []uint32{1}, Decisions: []*checkpb.Decision{b}, More: true}, {Checks: []uint32{0}, Decisions: []*checkpb.Decision{a}}}, []string{"a", "b"}},
		"one twice":          {[]*checkpb.DecisionBatch{{Checks: []uint32{0, 0}, Decisions: []*checkpb.Decision{a, b}, More: true}, {Checks: []uint32{1}, Decisions: []*checkpb.Decision{b}}}, []string{"a", "b"}},
		"one left out":       {[]*checkpb.DecisionBatch{{Checks: []uint32{1}, Decisions: []*checkpb.Decision{b}}}, []string{"detector-error", "b"}},
		"for another batch":  {[]*checkpb.DecisionBatch{{Decisions: []*checkpb.Decision{a}}}, []string{"detector-error", "detector-error"}},
		"of no check":        {[]*checkpb.DecisionBatch{{Checks: []uint32{7}, Decisions: []*checkpb.Decision{a}, More: true}}, []string{"detector-error", "detector-error"}},
		"without a decision": {[]*checkpb.DecisionBatch{{Checks: []uint32{0, 1}, Decisions: []*checkpb.Decision{a}, More: true}}, []string{"detector-error", "detector-error"}},
		"refused in part":    {[]*checkpb.DecisionBatch{{Decisions: []*checkpb.Decision{stalled}}}, []string{"detector-error", "detector-error"}},
	} {
		calls := []*call{{done: make(chan answer, 1)}, {done: make(chan answer, 1)}}
		freed := 0
		one := newAttempt(c, c.lane(""), calls, nil, nil, func() { freed++ })
		for i, part := range test.parts {
			if more := one.decided(part, nil); more != (i+1 < len(test.parts)) {
				t.Errorf("%s: after part %d more is %t", name, i, more)
			}
		}
		var got []string
		for _, call := range calls {
			if a := <-call.done; a.err != nil {
				got = append(got, a.err.Error())
			} else {
				got = append(got, a.decision.GetFindings()[0].GetLoopId())
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" || freed != 1 || one.again() {
			t.Errorf("%s (-want +got):\n%s, freed %d times", name, diff, freed)
		}
	}
}

// Checks whose comparisons take long share messages, and keep no other check waiting.
func TestSlowComparisonsKeepNoCheckWaiting(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	nc := s.Conn()
	release := make(chan struct{})
	reply := func(m *nats.Msg, part *checkpb.DecisionBatch) {
		if body, err := proto.Marshal(part); err != nil || m.Respond(body) != nil {
			t.Errorf("respond: %v", err)
		}
	}
	if _, err := nc.Subscribe(schemas.SubjectCheck, func(m *nats.Msg) {
		var batch checkpb.CheckBatch
		if err := proto.Unmarshal(m.Data, &batch); err != nil || !batch.GetParts() {
			t.Errorf("batch %v, %v", &batch, err)
		}
		now, late := &checkpb.DecisionBatch{}, &checkpb.DecisionBatch{}
		for i, check := range batch.GetChecks() {
			part := now
			if len(check.GetSemantics()) > 0 {
				part = late
			}
			part.Checks, part.Decisions = append(part.Checks, uint32(i)), append(part.Decisions, decisionOf(check.GetRequestId()))
		}
		now.More = len(late.GetChecks()) > 0
		reply(m, now)
		if now.GetMore() {
			go func() { <-release; reply(m, late) }()
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	c := newChecker(s.Service(), patience, time.Now)
	var slow sync.WaitGroup
	asked := make(chan struct{}, 8*maxSent)
	for i := range 8 * maxSent {
		slow.Go(func() {
			check := checkOf(fmt.Sprint(i))
			check.Semantics = []*checkpb.SemanticWatch{{Policy: "p"}}
			asked <- struct{}{}
			if d, _, err := c.Check(t.Context(), check); err != nil || d.GetFindings()[0].GetLoopId() != check.GetRequestId() {
				t.Errorf("%d: %v, %v", i, d, err)
			}
		})
	}
	for range 8 * maxSent {
		<-asked
	}
	for i := range 50 {
		id := fmt.Sprint("quick ", i)
		if d, _, err := c.Check(t.Context(), checkOf(id)); err != nil || d.GetFindings()[0].GetLoopId() != id {
			t.Errorf("%v, %v", d, err)
		}
	}
	close(release)
	slow.Wait()
}

// The replay of a failed request is not sent before the detectors know that it is one.
func TestChecksWaitForTheOutcomeOfTheirRequest(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	asked := make(chan string, 8)
	echo := each(t, func(c *checkpb.Check) *checkpb.Decision {
		asked <- c.GetRequestId()
		return decisionOf(c.GetRequestId())
	})
	detector(t, s, echo)
	outcomes := make(chan *nats.Msg, 1)
	nc := s.Conn()
	if _, err := nc.ChanSubscribe(schemas.SubjectOutcome, outcomes); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	c := newChecker(s.Service(), patience, time.Now)
	c.Outcome(checkOf("failed"), false)
	report := <-outcomes
	replayed := make(chan error, 1)
	go func() {
		_, _, err := c.Check(t.Context(), checkOf("failed"))
		replayed <- err
	}()
	if _, _, err := c.Check(t.Context(), checkOf("other")); err != nil {
		t.Fatal(err)
	}
	if first := <-asked; first != "other" {
		t.Errorf("%q is asked first", first)
	}
	select {
	case id := <-asked:
		t.Errorf("%q is asked before the outcome is stored", id)
	case err := <-replayed:
		t.Errorf("decided before the outcome is stored: %v", err)
	default:
	}
	if err := report.Respond(nil); err != nil {
		t.Fatal(err)
	}
	if err := <-replayed; err != nil || <-asked != "failed" {
		t.Errorf("after the outcome is stored: %v", err)
	}
	if len(c.outcomes.open) != 0 {
		t.Errorf("%d outcomes are open", len(c.outcomes.open))
	}
}
