package comparing_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/comparing"
	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/detector/internal/metrics"
	"github.com/unloop/unloop/detector/internal/streak"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/semanticpb"
)

var errNo = errors.New("no")

// similar and unlike are answers of a worker.
var (
	similar = &semanticpb.SemanticReply{Judged: true, Detected: true, Compared: 5, MaxSimilarity: 0.97}
	unlike  = &semanticpb.SemanticReply{Judged: true, Compared: 5, MaxSimilarity: 0.5}
)

// streaks are records whose updates can fail.
type streaks struct {
	*ledger.Memory[streak.State]
	err error
}

func (s *streaks) Apply(ctx context.Context, key string, step ledger.Step[streak.State]) error {
	if s.err != nil {
		return s.err
	}
	return s.Memory.Apply(ctx, key, step)
}

// fixture is a comparer with a worker of the test.
type fixture struct {
	*comparing.Comparer
	streaks *streaks
	metrics *metrics.Metrics
	reg     *prometheus.Registry
	err     error // of recording incidents

	mu       sync.Mutex
	recorded []incident.Finding
}

func newFixture(worker comparing.Worker) *fixture {
	f := &fixture{streaks: &streaks{Memory: ledger.NewMemory[streak.State](time.Now)}, metrics: metrics.New(prometheus.NewRegistry()), reg: prometheus.NewRegistry()}
	record := func(_ context.Context, found ...incident.Finding) (string, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.recorded = append(f.recorded, found...)
		return "loop", f.err
	}
	f.Comparer = comparing.New(f.streaks, worker, record, time.Now, f.metrics, f.reg)
	return f
}

// says is a worker with one answer.
func says(reply *semanticpb.SemanticReply, err error) comparing.Worker {
	return func(context.Context, *semanticpb.SemanticRequest) (*semanticpb.SemanticReply, error) {
		return reply, err
	}
}

// waitsForNothing are parameters whose comparison is for the next request.
const waitsForNothing = `{"min_matches":1,"ttl_seconds":60,"budget_ms":60000,"deferred":true}`

// watch is a semantic watch that hints at each match.
func watch(edit func(*checkpb.Check, *checkpb.SemanticWatch)) *evaluate.Semantic {
	scope := sha256.Sum256([]byte("scope"))
	w := &checkpb.SemanticWatch{
		Policy: "p", Scope: scope[:], Params: []byte(`{"min_matches":1,"ttl_seconds":60,"budget_ms":60000}`), // longer than any comparison waits for a processor
	}
	check := &checkpb.Check{RequestId: "r", Exchange: &semanticpb.Exchange{Answered: "text"}, Semantics: []*checkpb.SemanticWatch{w}}
	if edit != nil {
		edit(check, w)
	}
	return evaluate.Semantics(check, nil, nil)[0]
}

// counted returns how often a comparison had a result.
func (f *fixture) counted(t *testing.T, result string) (n float64) {
	t.Helper()
	families, err := f.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == result {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

func TestAMatchIsAFinding(t *testing.T) {
	t.Parallel()
	f := newFixture(says(similar, nil))
	for i := range 3 {
		if r := f.Compare(t.Context(), watch(nil)); r.Finding.GetHitCount() != uint32(i+1) || r.Finding.GetLoopId() != "loop" || r.Missed {
			t.Errorf("match %d: %+v", i+1, r)
		}
	}
	f.err = errNo
	if r := f.Compare(t.Context(), watch(nil)); r.Finding == nil || testutil.ToFloat64(f.metrics.Unrecorded) != 1 {
		t.Errorf("without its incident: %+v", r)
	}
	if len(f.recorded) != 4 || f.counted(t, "detected") != 4 {
		t.Errorf("%d findings recorded, %g detected", len(f.recorded), f.counted(t, "detected"))
	}
}

func TestRequestsPassWithoutAComparison(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply  *semanticpb.SemanticReply
		err    error
		missed bool
	}{
		"no-worker":    {&semanticpb.SemanticReply{}, natskit.ErrNoResponder, true},
		"no-answer":    {&semanticpb.SemanticReply{}, natskit.ErrNoAnswer, true},
		"overloaded":   {&semanticpb.SemanticReply{Error: semanticpb.SemanticError_SEMANTIC_ERROR_BUSY}, nil, true},
		"worker-error": {&semanticpb.SemanticReply{Error: semanticpb.SemanticError_SEMANTIC_ERROR_INFERENCE}, nil, true},
		"short":        {&semanticpb.SemanticReply{}, nil, false},
		"clear":        {&semanticpb.SemanticReply{Judged: true}, nil, false},
	} {
		f := newFixture(says(c.reply, c.err))
		if r := f.Compare(t.Context(), watch(nil)); r.Finding != nil || r.Missed != c.missed || f.counted(t, name) != 1 {
			t.Errorf("%s: %+v, counted %g", name, r, f.counted(t, name))
		}
		shadow := func(_ *checkpb.Check, w *checkpb.SemanticWatch) { w.Shadow = true }
		if r := f.Compare(t.Context(), watch(shadow)); r.Missed {
			t.Errorf("%s: a shadow policy misses nothing", name)
		}
	}
}

// A watch that no gateway sends asks nobody, and neither does one while workers are away.
func TestWorkersThatAreNotAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		f := newFixture(func(context.Context, *semanticpb.SemanticRequest) (*semanticpb.SemanticReply, error) {
			asked++
			return nil, natskit.ErrNoResponder
		})
		invalid := func(_ *checkpb.Check, w *checkpb.SemanticWatch) { w.Params = []byte("{") }
		if r := f.Compare(t.Context(), watch(invalid)); r.Missed || testutil.ToFloat64(f.metrics.Malformed) != 1 {
			t.Errorf("a malformed watch: %+v", r)
		}
		for range 3 {
			if r := f.Compare(t.Context(), watch(nil)); !r.Missed {
				t.Errorf("without workers: %+v", r)
			}
		}
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// Where the request's time ends first, the match is for the next request.
func TestALateMatchIsForTheNextRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		takes := 100 * time.Millisecond
		hurried := func(_ *checkpb.Check, w *checkpb.SemanticWatch) {
			w.Params = []byte(`{"min_matches":1,"ttl_seconds":60}`)
		}
		f := newFixture(func(context.Context, *semanticpb.SemanticRequest) (*semanticpb.SemanticReply, error) {
			<-time.After(takes)
			return similar, nil
		})
		if r := f.Compare(t.Context(), watch(hurried)); !r.Missed || r.Finding != nil {
			t.Errorf("the request: %+v", r)
		}
		f.Wait()
		if r := f.Compare(t.Context(), watch(hurried)); !r.Missed || r.Finding.GetSimilarity() != 0.97 {
			t.Errorf("the next request, whose own is late: %+v", r)
		}
		f.Wait()
		takes = 0
		peek := watch(func(c *checkpb.Check, _ *checkpb.SemanticWatch) { c.Peek = true })
		if r := f.Compare(t.Context(), peek); r.Finding.GetHitCount() != 3 || r.Finding.GetLoopId() != "" {
			t.Errorf("a peek: %+v", r)
		}
		f.Wait()
		if n := f.counted(t, "late"); n != 2 {
			t.Errorf("%g late matches", n)
		}
	})
}

func TestPoliciesThatDoNotWait(t *testing.T) {
	t.Parallel()
	f := newFixture(says(similar, nil))
	deferred := func(_ *checkpb.Check, w *checkpb.SemanticWatch) { w.Params = []byte(waitsForNothing) }
	for i, want := range []uint32{0, 1, 2} {
		if r := f.Compare(t.Context(), watch(deferred)); r.Finding.GetHitCount() != want || r.Missed {
			t.Errorf("request %d: %+v", i+1, r)
		}
		f.Wait()
	}
	peek := func(c *checkpb.Check, w *checkpb.SemanticWatch) { c.Peek, w.Params = true, []byte(waitsForNothing) }
	for range 2 {
		if r := f.Compare(t.Context(), watch(peek)); r.Finding.GetHitCount() != 3 {
			t.Errorf("a peek: %+v", r)
		}
	}
}

func TestTwoRetriesInARowAreNotCompared(t *testing.T) {
	t.Parallel()
	f := newFixture(says(similar, nil))
	retry := func(c *checkpb.Check, _ *checkpb.SemanticWatch) { c.Retry = true }
	for i, found := range []bool{false, false, true, false} {
		if r := f.Compare(t.Context(), watch(retry)); (r.Finding != nil) != found {
			t.Errorf("retry %d: %+v", i+1, r)
		}
	}
	if n := f.counted(t, "retry"); n != 3 {
		t.Errorf("%g retries", n)
	}
}

// A replay of a call that got no answer is not a match.
func TestReplaysAreNoMatches(t *testing.T) {
	t.Parallel()
	f := newFixture(says(similar, nil))
	s := watch(nil)
	excuse, _ := evaluate.ExcuseText(s.Watch, checkpb.TextDigest(s.Check.GetExchange()))
	if err := f.streaks.Apply(t.Context(), excuse.Key, func(state streak.State) (streak.State, time.Duration) { return excuse.Step(state, time.Now()) }); err != nil {
		t.Fatal(err)
	}
	if r := f.Compare(t.Context(), s); r.Finding != nil || f.counted(t, "retry") != 1 {
		t.Errorf("replay: %+v", r)
	}
}

func TestWithoutTheirStoreRequestsPass(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*checkpb.Check, *checkpb.SemanticWatch){
		"a request":        nil,
		"a retry":          func(c *checkpb.Check, _ *checkpb.SemanticWatch) { c.Retry = true },
		"a deferred watch": func(_ *checkpb.Check, w *checkpb.SemanticWatch) { w.Params = []byte(waitsForNothing) },
	} {
		f := newFixture(says(similar, nil))
		f.streaks.err = errNo
		if r := f.Compare(t.Context(), watch(edit)); r.Finding != nil || r.Missed != (edit == nil) || f.counted(t, "store-error") != 1 {
			t.Errorf("%s: %+v, counted %g", name, r, f.counted(t, "store-error"))
		}
	}
}

// More comparisons at a time than are bounded make requests pass.
func TestComparisonsUnderWayAreBounded(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	f := newFixture(func(context.Context, *semanticpb.SemanticRequest) (*semanticpb.SemanticReply, error) {
		<-release
		return unlike, nil
	})
	deferred := watch(func(_ *checkpb.Check, w *checkpb.SemanticWatch) { w.Params = []byte(waitsForNothing) })
	for range 4096 {
		f.Compare(t.Context(), deferred)
	}
	if r := f.Compare(t.Context(), watch(nil)); !r.Missed || f.counted(t, "overloaded") != 1 {
		t.Errorf("one more: %+v", r)
	}
	close(release)
	f.Wait()
}

func TestWorkersAreAskedOverNATS(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	ask := comparing.AskOver(natskit.NewInbox(s.Service(), comparing.AnswerTimeout))
	if _, err := ask(t.Context(), &semanticpb.SemanticRequest{}); !errors.Is(err, natskit.ErrNoResponder) {
		t.Errorf("without workers: %v", err)
	}
	answer(t, s, schemas.SubjectSemantic, similar)
	if reply, err := ask(t.Context(), &semanticpb.SemanticRequest{}); err != nil || !reply.GetDetected() {
		t.Errorf("answer %v, %v", reply, err)
	}
	if _, err := ask(t.Context(), &semanticpb.SemanticRequest{RequestId: "\xff"}); err == nil {
		t.Error("a text that is no UTF-8 was sent")
	}
}

// answer answers all requests on a subject.
func answer(t *testing.T, s *natstest.Server, subject string, reply proto.Message) {
	t.Helper()
	body, err := proto.Marshal(reply)
	if err != nil {
		t.Fatal(err)
	}
	nc := s.Conn()
	if _, err = nc.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond(body) }); err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}
