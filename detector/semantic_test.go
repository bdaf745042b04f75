package detector_test

import (
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/policy"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// scripted is an embedding worker that says what it is told.
type scripted struct {
	asked atomic.Int64
	last  atomic.Pointer[semanticpb.SemanticRequest]
}

// verdicts of a scripted worker.
var (
	similar = &semanticpb.SemanticReply{Judged: true, Detected: true, Compared: 5, MaxSimilarity: 0.97}
	unlike  = &semanticpb.SemanticReply{Judged: true, Compared: 5, MaxSimilarity: 0.5}
	short   = &semanticpb.SemanticReply{}
)

// answer starts a worker whose n-th answer, from 0, is what script returns; nil
// is none.
func answer(t *testing.T, s *natstest.Server, script func(n int) *semanticpb.SemanticReply) *scripted {
	t.Helper()
	w := &scripted{}
	nc := s.Conn()
	_, err := nc.QueueSubscribe(schemas.SubjectSemantic, schemas.QueueEmbedworker, func(m *nats.Msg) {
		var r semanticpb.SemanticRequest
		if err := proto.Unmarshal(m.Data, &r); err != nil {
			t.Errorf("request: %v", err)
		}
		if r.GetStreakFollows() { // nothing to compare
			_ = m.Respond(nil)
			return
		}
		w.last.Store(&r)
		reply := script(int(w.asked.Add(1)) - 1)
		if reply == nil {
			return
		}
		body, err := proto.Marshal(reply)
		if err == nil {
			err = m.Respond(body)
		}
		if err != nil {
			t.Errorf("respond: %v", err)
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func says(r *semanticpb.SemanticReply) func(int) *semanticpb.SemanticReply {
	return func(int) *semanticpb.SemanticReply { return r }
}

// meaningCheck is a check by the semantic detector of the default policy, with
// time enough for a slow machine.
func meaningCheck() *checkpb.Check {
	scope := sha256.Sum256([]byte("scope"))
	return &checkpb.Check{
		RequestId: "req", Identity: &checkpb.Identity{Caller: "c0ffee", Session: "5e55"},
		Exchange: &semanticpb.Exchange{Said: "Let me look for it.", Answered: "Nothing was found."},
		Semantics: []*checkpb.SemanticWatch{{
			Policy: "default", Scope: scope[:],
			Params: fmt.Appendf(nil, `{"budget_ms":%d,"escalation":[{"at":1,"action":"hint"},{"at":8,"action":"reject"}]}`, patience.Milliseconds()),
		}},
	}
}

// labels asks n times and returns the actions.
func labels(t *testing.T, nc *nats.Conn, check *checkpb.Check, n int) []string {
	t.Helper()
	var all []string
	for range n {
		d := ask(t, nc, check)[0]
		if d.GetError() != "" {
			t.Fatal(d.GetError())
		}
		all = append(all, d.GetAction().Label())
	}
	return all
}

func TestSemanticLoopIsHintedAndRejectedFromItsEighthFinding(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	startDetector(t, s) // the streak is common to all detectors
	nc := s.Conn()
	worker := answer(t, s, says(similar))
	if diff := cmp.Diff([]string{"hint", "hint", "hint", "hint", "hint", "hint", "hint", "reject", "reject"}, labels(t, nc, meaningCheck(), 9)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	f := ask(t, nc, meaningCheck())[0].GetFindings()[0]
	if f.GetDetector() != "semantic" || f.GetHitCount() != 10 || f.GetSimilarity() != 0.97 || f.GetLoopId() == "" || f.Hint() == "" {
		t.Errorf("finding %v", f)
	}
	r := worker.last.Load()
	if r.GetExchange().GetSaid() == "" || r.GetThreshold() != 0.95 || r.GetMinMatches() != 2 || r.GetRequestId() == "" || len(r.GetScopeKey()) != 64 {
		t.Errorf("the worker was asked %v", r)
	}
	loops := storedIncidents(t, s)
	if len(loops) != 1 || loops[0].Detector != "semantic" || loops[0].Similarity != 0.97 {
		t.Fatalf("incidents %v", loops)
	}
	if reply := release(t, nc, loops[0].LoopID); reply.GetError() != "" {
		t.Fatal(reply.GetError())
	}
	if got := labels(t, nc, meaningCheck(), 1); got[0] != "hint" {
		t.Errorf("after the release: %s, want a first finding", got[0])
	}
}

// A prompt that names no session is of another derived one in each wording, and
// its loop is still one.
func TestRowOfFindingsIsOneIncidentWhateverItsSessions(t *testing.T) {
	t.Parallel()
	const clear = 9
	s := natstest.Start(t)
	startDetector(t, s)
	startDetector(t, s)
	answer(t, s, func(n int) *semanticpb.SemanticReply {
		if n == clear {
			return unlike
		}
		return similar
	})
	nc := s.Conn()
	for n := range clear + 2 {
		check := meaningCheck()
		check.Identity.Session = fmt.Sprintf("%04x", n)
		ask(t, nc, check)
		if n == clear-1 {
			if loops := storedIncidents(t, s); len(loops) != 1 {
				t.Errorf("%d incidents of one row", len(loops))
			}
		}
	}
	if loops := storedIncidents(t, s); len(loops) != 2 {
		t.Errorf("%d incidents of two rows", len(loops))
	}
}

func TestHonestExchangeEndsTheStreak(t *testing.T) {
	t.Parallel()
	replies := []*semanticpb.SemanticReply{similar, similar, short, similar, unlike, similar}
	s := natstest.Start(t)
	startDetector(t, s)
	answer(t, s, func(n int) *semanticpb.SemanticReply { return replies[n] }) // a text that was not judged ends nothing
	nc := s.Conn()
	var counts []uint32
	for range replies {
		count := uint32(0)
		for _, f := range ask(t, nc, meaningCheck())[0].GetFindings() {
			count = f.GetHitCount()
		}
		counts = append(counts, count)
	}
	if diff := cmp.Diff([]uint32{1, 2, 0, 3, 0, 1}, counts); diff != "" {
		t.Errorf("findings in a row (-want +got):\n%s", diff)
	}
}

func TestWithoutAVerdictRequestsPass(t *testing.T) {
	t.Parallel()
	for code := range semanticpb.SemanticError_name {
		s := natstest.Start(t)
		startDetector(t, s)
		answer(t, s, says(&semanticpb.SemanticReply{Error: semanticpb.SemanticError(code), Detected: code != 0}))
		if d := ask(t, s.Conn(), meaningCheck())[0]; d.GetAction() != checkpb.Action_ACTION_ALLOW || d.GetError() != "" {
			t.Errorf("error %d: %v", code, d)
		}
	}
	s := natstest.Start(t)
	startDetector(t, s)
	if got := labels(t, s.Conn(), meaningCheck(), 3); got[2] != "allow" {
		t.Errorf("without a worker: %v", got)
	}
}

func TestLateVerdictAppliesToTheNextRequest(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	replied := make(chan struct{})
	answer(t, s, func(n int) *semanticpb.SemanticReply {
		if n == 0 {
			<-replied // the worker goes on although the request is gone
			return similar
		}
		return unlike
	})
	check := meaningCheck()
	check.Semantics[0].Params = []byte(`{"budget_ms":1,"escalation":[{"at":1,"action":"hint"},{"at":8,"action":"reject"}]}`)
	if d := ask(t, nc, check)[0]; len(d.GetFindings()) != 0 {
		t.Fatalf("the first request waited: %v", d)
	}
	close(replied)
	peek := meaningCheck()
	peek.Peek = true
	deadline := time.Now().Add(patience)
	for len(ask(t, nc, peek)[0].GetFindings()) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the late verdict never came")
		}
	}
	d := ask(t, nc, meaningCheck())[0]
	if len(d.GetFindings()) != 1 || d.GetFindings()[0].GetSimilarity() != 0.97 || d.GetFindings()[0].GetLoopId() == "" {
		t.Errorf("the next request: %v", d)
	}
	if d := ask(t, nc, meaningCheck())[0]; len(d.GetFindings()) != 0 {
		t.Errorf("the one after it: %v", d)
	}
}

func TestExactDetectorsGoFirst(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	worker := answer(t, s, says(similar))
	check := meaningCheck()
	check.Counters = promptCheck("p").GetCounters()
	// The first one may say something new to the exact detectors alone.
	if diff := cmp.Diff([]string{"hint", "allow", "allow", "allow", "allow", "reject", "reject"}, labels(t, nc, check, 7)); diff != "" {
		t.Errorf("one prompt, again and again (-want +got):\n%s", diff)
	}
	if n := worker.asked.Load(); n != 5 {
		t.Errorf("%d texts were embedded, want none of the rejected requests", n)
	}
	for i := range 6 {
		check.Counters = promptCheck(fmt.Sprint("other words ", i)).GetCounters()
		if d := ask(t, nc, check)[0]; d.GetFindings()[0].GetDetector() != "semantic" {
			t.Errorf("prompt %d in other words: %v", i, d)
		}
	}
}

func TestShadowPolicyOnlyReportsMeanings(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	answer(t, s, says(similar))
	check := meaningCheck()
	check.Semantics[0].Shadow = true
	if d := ask(t, s.Conn(), check)[0]; d.GetAction() != checkpb.Action_ACTION_ALLOW || len(d.GetFindings()) != 1 || !d.GetFindings()[0].GetShadow() {
		t.Errorf("shadow: %v", d)
	}
}

func TestRetriesAreNotJudgedUnlessThereAreTooMany(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	answer(t, s, says(similar))
	check := meaningCheck()
	check.Retry = true
	if diff := cmp.Diff([]string{"allow", "allow", "hint", "allow"}, labels(t, s.Conn(), check, 4)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestExpectedCallsAreNotJudged(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	worker := answer(t, s, says(similar))
	check := meaningCheck()
	check.Watches = toolCheck(round(1, "read", "x")).GetWatches()
	setTool(check.GetWatches()[0], func(t *policy.Tool) { t.Exempt = policy.Strings{"re*"} })
	if got := labels(t, s.Conn(), check, 1); got[0] != "allow" || worker.asked.Load() != 0 {
		t.Errorf("a call of an exempt tool: %v, %d asked", got, worker.asked.Load())
	}
}

// A release frees all rows of a conversation, whichever detector opened its
// incident, and texts from before it match nothing any more.
func TestReleaseOfAPromptFreesItsSemanticRow(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	answer(t, s, func(n int) *semanticpb.SemanticReply {
		reply := &semanticpb.SemanticReply{Judged: true, Detected: true, Compared: 5, MaxSimilarity: 0.97}
		age := uint32(time.Hour.Milliseconds()) // of texts from before the release
		if n >= 7 {
			age = 0
		}
		for range 2 {
			reply.Matches = append(reply.Matches, &semanticpb.SemanticMatch{Similarity: 0.97, RequestId: "earlier", AgeMs: age})
		}
		return reply
	})
	check := meaningCheck()
	check.Counters = promptCheck("p").GetCounters()
	if diff := cmp.Diff([]string{"hint", "allow", "allow", "allow", "allow", "reject"}, labels(t, nc, check, 6)); diff != "" {
		t.Fatalf("before the release (-want +got):\n%s", diff)
	}
	for _, loop := range storedIncidents(t, s) {
		if reply := release(t, nc, loop.LoopID); reply.GetError() != "" {
			t.Fatal(reply.GetError())
		}
	}
	check.Counters = promptCheck("other words").GetCounters()
	if diff := cmp.Diff([]string{"allow", "allow"}, labels(t, nc, check, 2)); diff != "" {
		t.Errorf("after the release, like texts from before (-want +got):\n%s", diff)
	}
	check.Counters = nil
	d := ask(t, nc, check)[0]
	if len(d.GetFindings()) != 1 || d.GetFindings()[0].GetHitCount() != 1 {
		t.Errorf("like texts from after the release: %v, want a first finding", d)
	}
}
