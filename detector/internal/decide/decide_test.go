package decide_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/comparing"
	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/decide"
	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/detector/internal/limit"
	"github.com/unloop/unloop/detector/internal/metrics"
	"github.com/unloop/unloop/detector/internal/streak"
	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/detector/internal/workload"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/semanticpb"
)

var (
	noon   = time.Date(2026, 5, 22, 12, 0, 0, 0, time.UTC)
	reject = checkpb.Action_ACTION_REJECT
	errNo  = errors.New("no")
)

func now() time.Time { return noon }

// store is a store of counters whose steps can fail, and may belong to another detector.
type store struct {
	*ledger.Memory[counter.State]
	owner string
	err   error
}

func (s *store) Start(ctx context.Context, key string, step ledger.Step[counter.State], done func(error)) {
	switch {
	case s.err != nil:
		done(s.err)
	case s.owner != "":
		owner := s.owner
		s.owner = "" // the detector that hands over once counts itself afterwards
		done(&ledger.ElsewhereError{Owner: owner})
	default:
		s.Memory.Start(ctx, key, step, done)
	}
}

func (s *store) Read(ctx context.Context, key string) (counter.State, error) {
	state, err := s.Memory.Read(ctx, key)
	return state, errors.Join(err, s.err)
}

// incidents note findings.
type incidents struct {
	mu       sync.Mutex
	recorded []incident.Finding
	opened   int
	resolved int
	err      error
}

func (i *incidents) Record(_ context.Context, found ...incident.Finding) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.recorded = append(i.recorded, found...)
	return fmt.Sprint("loop-", found[0].Policy), i.err
}

func (i *incidents) Open(f incident.Finding) string {
	i.opened++
	return fmt.Sprint("open-", f.Policy)
}

func (i *incidents) Resolve(context.Context, incident.Finding, string) error {
	i.resolved++
	return i.err
}

// peer is another detector.
type peer struct {
	reply *checkpb.HandoverReply
	gone  bool
	err   error
	sent  *checkpb.Handover
}

func (p *peer) Send(_ context.Context, _ string, h *checkpb.Handover) (*checkpb.HandoverReply, bool, error) {
	p.sent = h
	return p.reply, p.gone, p.err
}

// cooldowns note what they are to keep.
type cooldowns struct{ kept []*evaluate.Cooldown }

func (c *cooldowns) Keep(one *evaluate.Cooldown) { c.kept = append(c.kept, one) }

func (*cooldowns) Restore(_ string, s counter.State, _ time.Time) counter.State {
	if s.Last == 0 {
		s.BlockedUntil = noon.Add(time.Second).UnixMilli()
	}
	return s
}

// fixture is a decider whose parts the test holds.
type fixture struct {
	decide.Decider
	store     *store
	incidents *incidents
	peer      *peer
	published []string
}

func newFixture() *fixture {
	f := &fixture{store: &store{Memory: ledger.NewMemory[counter.State](now)}, incidents: &incidents{}, peer: &peer{}}
	f.Decider = decide.Decider{
		Log: slog.New(slog.DiscardHandler), Now: now, Metrics: metrics.New(prometheus.NewRegistry()), Counters: f.store, Workloads: workload.New(),
		Sessions: ledger.NewMemory[toolloop.State](now), Limits: ledger.NewMemory[limit.State](now), Budgets: ledger.NewMemory[limit.State](now), Incidents: f.incidents, Peers: f.peer,
		Publish: func(subject string, _ []byte) error {
			f.published = append(f.published, subject)
			return nil
		},
	}
	return f
}

func (f *fixture) decide(t *testing.T, check *checkpb.Check) *checkpb.Decision {
	t.Helper()
	return f.Decide(t.Context(), check)
}

func hash(of string) []byte {
	sum := sha256.Sum256([]byte(of))
	return sum[:]
}

// check is one counter of each policy, which rejects at its second hit.
func check(policies ...string) *checkpb.Check {
	c := &checkpb.Check{RequestId: "r"}
	for _, p := range policies {
		c.Counters = append(c.Counters, &checkpb.Counter{
			Policy: p, Detector: "prompt", Fingerprint: hash("prompt"), Window: checkpb.Window_WINDOW_SLIDING, WindowSeconds: 60, CooldownSeconds: 30,
			Steps: []*checkpb.Step{{At: 2, Action: reject}},
		})
	}
	return c
}

func TestAllPartsAreDecidedAndTheirFindingsRecorded(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.InOrder = true
	both := check("a", "b")
	both.Counters[1].Shadow = true
	both.Limits = []*checkpb.Limit{{Policy: "a", Rule: "few", Key: hash("key"), Cost: 1, Bucket: &checkpb.Bucket{Rate: 1, Capacity: 5}}}
	both.Watches = []*checkpb.ToolWatch{{Policy: "a", Agent: hash("agent"), Run: &checkpb.ToolRun{}}}
	f.decide(t, both)
	d := f.decide(t, both)
	if d.GetAction() != reject || len(d.GetFindings()) != 2 || d.GetFindings()[1].GetLoopId() != "loop-b" || len(d.GetLimits()) != 1 || len(d.GetToolReports()) != 1 {
		t.Errorf("decision %v", d)
	}
	if diff := cmp.Diff([]uint32{2, 2, 0}, d.GetHitCounts()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{schemas.SubjectCooldown}, f.published); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
	probe, recorded := check("a"), f.incidents.opened
	probe.Probe = true
	if d = f.decide(t, probe); d.GetAction() != reject || d.GetFindings()[0].GetLoopId() != "" || len(f.published) != 1 || f.incidents.opened != recorded {
		t.Errorf("probe: %v, published %v", d, f.published)
	}
	peek := check("a")
	peek.Peek = true
	if d = f.decide(t, peek); d.GetFindings()[0].GetLoopId() != "open-a" || f.incidents.opened != 1 {
		t.Errorf("peek: %v", d)
	}
}

// A cooldown that begins is kept, and one that stands although its record is gone holds.
func TestCooldownsOutliveTheirRecords(t *testing.T) {
	t.Parallel()
	f, kept := newFixture(), &cooldowns{}
	f.Cooldowns = kept
	if d := f.decide(t, check("a")); d.GetAction() != reject {
		t.Errorf("a cooldown that stands: %v", d)
	}
	f = newFixture()
	f.Cooldowns = kept
	restoredNever := check("a")
	restoredNever.Hits = 2
	f.store.Memory.Start(t.Context(), schemas.CounterKey(false, "prompt", "a", hash("prompt")), func(s counter.State) (counter.State, time.Duration) {
		s.Last = 1
		return s, time.Minute
	}, func(error) {})
	if d := f.decide(t, restoredNever); d.GetAction() != reject || len(kept.kept) != 1 {
		t.Errorf("a cooldown that begins: %v, kept %v", d, kept.kept)
	}
}

func TestWhatCouldNotBeCountedIsSaid(t *testing.T) {
	t.Parallel()
	malformed := check("a")
	malformed.Counters[0].Fingerprint = nil
	long := check(strings.Repeat("x", 300))
	for name, c := range map[string]struct {
		check *checkpb.Check
		err   error
		want  string
	}{
		"a store that fails":   {check("a"), errNo, "not counted"},
		"a malformed counter":  {malformed, nil, "check malformed"},
		"a name that is long":  {long, nil, "check malformed"},
		"a peek without store": {&checkpb.Check{Peek: true, Counters: check("a").GetCounters()}, errNo, "not counted"},
	} {
		f := newFixture()
		f.store.err = c.err
		if d := f.decide(t, c.check); d.GetError() != c.want {
			t.Errorf("%s: %v", name, d)
		}
		if n := testutil.ToFloat64(f.Metrics.Uncounted) + testutil.ToFloat64(f.Metrics.Malformed); n != 1 {
			t.Errorf("%s: counted %g times", name, n)
		}
	}
}

func TestADecisionHoldsWithoutItsIncident(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.incidents.err = errNo
	f.Publish = func(string, []byte) error { return errNo }
	two := check("a")
	two.Hits = 2
	if d := f.decide(t, two); d.GetAction() != reject {
		t.Errorf("decision %v", d)
	}
	if testutil.ToFloat64(f.Metrics.Unrecorded) != 1 || testutil.ToFloat64(f.Metrics.Unanswered) != 1 {
		t.Error("what failed was not counted")
	}
}

func TestTheIncidentOfABreakerBeginsAndEnds(t *testing.T) {
	t.Parallel()
	f := newFixture()
	at := noon
	f.Now = func() time.Time { return at }
	breaker := &checkpb.Check{Limits: []*checkpb.Limit{{
		Policy: "a", Rule: finding.CircuitBreaker, Key: hash("key"), Cost: 5, Breaker: &checkpb.Breaker{Threshold: 2, ResetSeconds: 60},
	}}}
	if d := f.decide(t, breaker); d.GetLimits()[0].GetLoopId() != "loop-a" || d.GetAction() != reject {
		t.Errorf("opened: %v", d)
	}
	f.incidents.err = errNo
	at, breaker.Limits[0].Cost = noon.Add(3*time.Minute), 0
	if f.decide(t, breaker); f.incidents.resolved != 1 || testutil.ToFloat64(f.Metrics.Unrecorded) != 1 {
		t.Errorf("closed: resolved %d times", f.incidents.resolved)
	}
}

// The step of a part whose record belongs to another detector is applied there, or here if
// that one is gone.
func TestPartsOfOtherDetectors(t *testing.T) {
	t.Parallel()
	counted := &checkpb.HandoverReply{Verdict: []byte(`{"Count": 7}`)}
	for name, c := range map[string]struct {
		peer  peer
		hits  uint32
		error string
	}{
		"it counts":                {peer{reply: counted}, 7, ""},
		"it is gone":               {peer{reply: counted, gone: true, err: errNo}, 1, ""},
		"it does not answer":       {peer{err: errNo}, 1, ""}, // and its record would show the hit
		"it finds it malformed":    {peer{reply: &checkpb.HandoverReply{Error: "check malformed"}}, 0, "check malformed"},
		"it is overloaded":         {peer{reply: &checkpb.HandoverReply{Error: decide.ErrorOverloaded}}, 1, ""},
		"it could not count":       {peer{reply: &checkpb.HandoverReply{Error: "not counted"}}, 1, ""}, // or it has, which the record would show
		"it answers what is wrong": {peer{reply: &checkpb.HandoverReply{Verdict: []byte("7")}}, 0, "not counted"},
	} {
		f := newFixture()
		f.store.owner, *f.peer = "other", c.peer
		asked := check("a")
		asked.Hit = "q6urq6ur"
		d := f.decide(t, asked)
		sent := f.peer.sent.GetCheck()
		if d.GetHitCounts()[0] != c.hits || d.GetError() != c.error || len(sent.GetCounters()) != 1 {
			t.Errorf("%s: %v", name, d)
		}
		if sent.GetHit() != asked.GetHit() {
			t.Errorf("%s: the hit's id is %q", name, sent.GetHit())
		}
	}
}

// Where the other detector may have counted, a hit with an id is counted here: the record
// would show it.
func TestAStepWhoseDetectorDoesNotAnswerIsAppliedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture()
	one := check("a")
	one.Hit = "hit00001"
	f.decide(t, one) // as the detector that does not answer did
	f.store.owner, *f.peer = "other", peer{err: errNo}
	if d := f.decide(t, one); d.GetHitCounts()[0] != 1 || d.GetError() != "" {
		t.Errorf("decision %v", d)
	}
}

// A detector applies the step that was handed to it, and records nothing: the one that
// handed it over does.
func TestAStepThatWasHandedOver(t *testing.T) {
	t.Parallel()
	f := newFixture()
	twice := check("a")
	twice.Hits = 2
	r := f.Step(t.Context(), twice)
	if r.GetError() != "" || len(f.incidents.recorded) != 0 || len(f.published) != 0 {
		t.Errorf("reply %v, recorded %v", r, f.incidents.recorded)
	}
	asking := newFixture()
	asking.store.owner, asking.peer.reply = "other", r
	if d := asking.decide(t, twice); d.GetAction() != reject || d.GetFindings()[0].GetLoopId() != "loop-a" || len(asking.published) != 1 {
		t.Errorf("decision %v", d)
	}
	malformed := check("a")
	malformed.Counters[0].Fingerprint = nil
	for name, c := range map[string]struct {
		check *checkpb.Check
		err   error
		want  string
	}{
		"two parts": {check("a", "b"), nil, "check malformed"}, "a malformed one": {malformed, nil, "check malformed"},
		"a long name": {check(strings.Repeat("x", 300)), nil, "check malformed"}, "no store": {check("a"), errNo, "not counted"},
	} {
		f := newFixture()
		if f.store.err = c.err; f.Step(t.Context(), c.check).GetError() != c.want {
			t.Errorf("%s: want %q", name, c.want)
		}
	}
}

func TestOutcomesExcuseAndCorrect(t *testing.T) {
	t.Parallel()
	f := newFixture()
	streaks := ledger.NewMemory[streak.State](now)
	f.Semantic = comparing.New(streaks, notes, f.incidents.Record, now, f.Metrics, prometheus.NewRegistry())
	rule := &checkpb.Limit{Policy: "a", Rule: "few", Key: hash("key"), Cost: 1, Estimated: true, Bucket: &checkpb.Bucket{Rate: 0.001, Capacity: 5}}
	both := check("a")
	both.Limits = []*checkpb.Limit{rule}
	f.decide(t, both)
	watch := &checkpb.SemanticWatch{Policy: "a", Scope: hash("scope")}
	_ = f.Apply(t.Context(), &checkpb.Outcome{
		Counters: both.GetCounters(), Corrections: []*checkpb.Correction{{Limit: rule, Delta: 2}, {}},
		Semantics: []*checkpb.SemanticWatch{watch, {}}, Text: []byte{1},
	})
	d := f.decide(t, both)
	if d.GetHitCounts()[0] != 1 || d.GetLimits()[0].GetRemaining() != 1 {
		t.Errorf("after the outcome: %v", d)
	}
	if s, _ := streaks.Read(t.Context(), schemas.StreakKey(false, "a", hash("scope"))); len(s.Calls) != 1 {
		t.Errorf("streak %+v", s)
	}
	if n := testutil.ToFloat64(f.Metrics.Uncounted); n != 1 {
		t.Errorf("%g parts of the outcome were not applied, want the malformed one", n)
	}
}

// The detector that a caller's checks go to knows whether a prompt is a workload: the one
// that has the record is told, and does not judge that itself.
func TestAWorkloadThatIsHandedOverIsOne(t *testing.T) {
	t.Parallel()
	f := newFixture()
	opening := func(begin uint64, messages uint32) *checkpb.Check {
		c := check("a")
		c.GetCounters()[0].Opening = &checkpb.Opening{Begin: begin, Messages: messages, First: messages == 1}
		return c
	}
	for range 3 {
		f.decide(t, opening(1, 1))
		next := opening(1, 3)
		next.GetCounters()[0].Fingerprint = slices.Concat(hash("next")[:16], next.GetCounters()[0].GetFingerprint()[16:])
		f.decide(t, next)
	}
	f.store.owner, f.peer.reply = "other", &checkpb.HandoverReply{Verdict: []byte("{}")}
	f.decide(t, opening(1, 1))
	sent := f.peer.sent.GetCheck().GetCounters()
	if len(sent) != 1 || sent[0].GetOpening() != nil || sent[0].GetSteps()[0].GetAction() != checkpb.Action_ACTION_WARN {
		t.Errorf("handed over: %v", sent)
	}
}

func TestOutcomesOfOtherDetectors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		peer    peer
		excused bool
	}{
		"it takes it":    {peer{reply: &checkpb.HandoverReply{}}, false},
		"it is gone":     {peer{gone: true, err: errNo}, true},
		"it is too busy": {peer{reply: &checkpb.HandoverReply{Error: decide.ErrorOverloaded}}, true},
	} {
		f := newFixture()
		f.decide(t, check("a"))
		f.store.owner, *f.peer = "other", c.peer
		if err := f.Apply(t.Context(), &checkpb.Outcome{Counters: check("a").GetCounters(), Aborted: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !f.peer.sent.GetOutcome().GetAborted() {
			t.Errorf("%s: sent %v", name, f.peer.sent)
		}
		want := uint32(2)
		if c.excused {
			want = 1
		}
		if d := f.decide(t, check("a")); d.GetHitCounts()[0] != want {
			t.Errorf("%s: count %d, want %d", name, d.GetHitCounts()[0], want)
		}
	}
}

// noted is a worker's answer where a streak is about to be written.
var noted = &semanticpb.SemanticReply{Streak: semanticpb.Streak_STREAK_POSSIBLE}

func notes(context.Context, *semanticpb.SemanticRequest) (*semanticpb.SemanticReply, error) {
	return noted, nil
}

// Texts are compared where the request is not stopped anyway.
func TestTextsAreComparedLast(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.InOrder = true
	asked := 0
	worker := func(_ context.Context, r *semanticpb.SemanticRequest) (*semanticpb.SemanticReply, error) {
		if r.GetStreakFollows() {
			return noted, nil
		}
		asked++
		return &semanticpb.SemanticReply{Judged: true, Detected: true, Compared: 3, MaxSimilarity: 0.97}, nil
	}
	f.Semantic = comparing.New(ledger.NewMemory[streak.State](now), worker, f.incidents.Record, now, f.Metrics, prometheus.NewRegistry())
	f.Semantic.Patient = true
	both := check("a")
	both.Exchange = &semanticpb.Exchange{Answered: "text"}
	watch := &checkpb.SemanticWatch{Policy: "a", Scope: hash("scope"), Params: []byte(`{"ttl_seconds":60,"min_matches":1}`)}
	other := proto.CloneOf(watch)
	other.Policy = "b"
	both.Semantics = []*checkpb.SemanticWatch{watch, other}
	if d := f.decide(t, both); d.GetAction() != checkpb.Action_ACTION_HINT || len(d.GetFindings()) != 2 || asked != 2 {
		t.Errorf("decision %v, asked %d", d, asked)
	}
	if d := f.decide(t, both); d.GetAction() != reject || asked != 2 {
		t.Errorf("a request that is stopped: %v, asked %d", d, asked)
	}
}
