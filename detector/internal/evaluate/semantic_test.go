package evaluate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/detector/internal/streak"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/policy"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// semanticCheck is a check with one semantic watch.
func semanticCheck(edit func(*checkpb.Check, *checkpb.SemanticWatch)) *checkpb.Check {
	w := &checkpb.SemanticWatch{
		Policy: "p", Scope: hash("scope"),
		Params: []byte(`{"ttl_seconds":600,"escalation":[{"at":1,"action":"hint"},{"at":3,"action":"throttle"},{"at":5,"action":"reject"}]}`),
	}
	check := &checkpb.Check{
		RequestId: "r", Identity: &checkpb.Identity{Session: "5e55"}, Exchange: &semanticpb.Exchange{Said: "said", Answered: "answered"},
		Semantics: []*checkpb.SemanticWatch{w},
	}
	if edit != nil {
		edit(check, w)
	}
	return check
}

func semantic(t *testing.T, check *checkpb.Check, hits ...uint32) *evaluate.Semantic {
	t.Helper()
	all := evaluate.Semantics(check, hits, nil)
	if len(all) != 1 {
		t.Fatalf("%d watches", len(all))
	}
	return all[0]
}

func TestWhichTextsAreCompared(t *testing.T) {
	t.Parallel()
	polls := semanticCheck(func(c *checkpb.Check, _ *checkpb.SemanticWatch) {
		c.Watches = watchCheck(func(w *checkpb.ToolWatch) { setTool(w, func(t *policy.Tool) { t.Exempt = policy.Strings{"re*"} }) }).GetWatches()
	})
	if all := evaluate.Semantics(polls, nil, nil); len(all) != 0 {
		t.Error("a call of an exempt tool is compared")
	}
	polls.Watches[0].History = nil
	if s := semantic(t, polls); !s.Valid() || !strings.HasPrefix(s.Key(), "streak.live.p.") {
		t.Errorf("valid %t, key %s", s.Valid(), s.Key())
	}
	for name, edit := range map[string]func(*checkpb.Check, *checkpb.SemanticWatch){
		"scope":      func(_ *checkpb.Check, w *checkpb.SemanticWatch) { w.Scope = nil },
		"parameters": func(_ *checkpb.Check, w *checkpb.SemanticWatch) { w.Params = []byte(`{"threshold":2}`) },
	} {
		if semantic(t, semanticCheck(edit)).Valid() {
			t.Errorf("a watch without %s is valid", name)
		}
	}
}

// A request whose decision was asked for replaces the text that was remembered then.
func TestIDsOfTexts(t *testing.T) {
	t.Parallel()
	asked := semantic(t, semanticCheck(func(c *checkpb.Check, _ *checkpb.SemanticWatch) { c.Asked = true }))
	id, replaces := asked.IDs("unique")
	if !strings.HasPrefix(id, "asked.") || !strings.HasSuffix(id, ".unique") || replaces != "" {
		t.Errorf("asked: %s, %q", id, replaces)
	}
	if own, replaces := semantic(t, semanticCheck(nil)).IDs("unique"); own != "unique" || replaces+"unique" != id {
		t.Errorf("the request: %s, %s", own, replaces)
	}
	if own, replaces := semantic(t, semanticCheck(func(c *checkpb.Check, _ *checkpb.SemanticWatch) { c.Peek = true })).IDs("unique"); own != "unique" || replaces != "" {
		t.Errorf("a peek: %s, %q", own, replaces)
	}
}

func TestRequestsToWorkers(t *testing.T) {
	t.Parallel()
	check := semanticCheck(nil)
	r := semantic(t, check).Request("id", "before", time.Second)
	if r.GetExchange().GetSaid() != "said" || r.GetRequestId() != "id" || r.GetReplaces() != "before" || r.GetBudgetMs() != 1000 || r.GetMinMatches() != 2 || len(r.GetScopeKey()) != 64 {
		t.Errorf("request %v", r)
	}
	check.Exchange = &semanticpb.Exchange{Answered: "text", Trace: &semanticpb.Trace{}}
	if r = semantic(t, check).Request("id", "", time.Second); r.GetText() != "text" || r.GetTrace() == nil {
		t.Errorf("request %v", r)
	}
}

// The wait ends early enough for the decision to arrive.
func TestHowLongARequestWaits(t *testing.T) {
	t.Parallel()
	s := semantic(t, semanticCheck(nil))
	for name, c := range map[string]struct{ deadline, want time.Duration }{
		"no deadline":      {0, 50 * time.Millisecond},
		"a late deadline":  {time.Second, 50 * time.Millisecond},
		"an early one":     {50 * time.Millisecond, 30 * time.Millisecond},
		"one that is over": {-time.Second, -600 * time.Millisecond},
	} {
		var deadline time.Time
		if c.deadline != 0 {
			deadline = noon.Add(c.deadline)
		}
		if got := s.WaitUntil(noon, deadline).Sub(noon); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestComparisonsOfWorkers(t *testing.T) {
	t.Parallel()
	check := semanticCheck(func(c *checkpb.Check, _ *checkpb.SemanticWatch) { c.Idempotency = strings.Repeat("k", 40) })
	s := semantic(t, check)
	reply := &semanticpb.SemanticReply{
		Judged: true, Detected: true, MaxSimilarity: 0.97, Replaced: true, Matches: []*semanticpb.SemanticMatch{{RequestId: "a", AgeMs: 1000}},
	}
	got := s.Comparison(reply, true, "id", "before", noon)
	want := streak.Comparison{
		Compared: true, Similar: true, Similarity: 0.97, ID: "id", MinMatches: 2, Matches: []string{"a"}, At: []int64{noon.Add(-time.Second).UnixMilli()},
		Replaced: "before", Incident: "5e55", Key: strings.Repeat("k", 16), Text: got.Text,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got.Text) != 32 {
		t.Errorf("text %s (-want +got):\n%s", got.Text, diff)
	}
	if fault := s.Comparison(reply, false, "id", "", noon); fault.Similar || fault.Compared {
		t.Errorf("an answer that is no comparison: %+v", fault)
	}
	reply.Repeats = true
	if c := s.Comparison(reply, true, "id", "", noon); c.Similarity != 1 {
		t.Errorf("a repeat sentence by sentence has similarity %g", c.Similarity)
	}
	reply.Repeats, reply.MaxSimilarity = false, 1
	if c := s.Comparison(reply, true, "id", "", noon); c.Similarity >= 1 {
		t.Errorf("embeddings have similarity %g", c.Similarity)
	}
}

func TestActionsOfAStreak(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		count      int
		similarity float64
		edit       func(*checkpb.Check, *checkpb.SemanticWatch)
		hits       []uint32
		want       checkpb.Action
	}{
		"no match":                     {0, 0.97, nil, nil, allow},
		"the first":                    {1, 0.97, nil, nil, hint},
		"the third":                    {3, 0.97, nil, nil, throttle},
		"the fifth":                    {5, 0.97, nil, nil, reject},
		"the fifth of a shared scope":  {5, 0.97, func(_ *checkpb.Check, w *checkpb.SemanticWatch) { w.HintOnly = true }, nil, hint},
		"one that repeats all":         {5, 1, func(_ *checkpb.Check, w *checkpb.SemanticWatch) { w.HintOnly = true }, nil, reject},
		"what a counter counts":        {3, 0.97, counted, []uint32{3, 0}, allow},
		"what a tool watch counts":     {3, 0.97, counted, []uint32{1, 3}, allow},
		"more than the counter counts": {3, 0.97, counted, []uint32{2, 0}, throttle},
		"another policy counts":        {1, 0.97, func(c *checkpb.Check, _ *checkpb.SemanticWatch) { c.Counters = []*checkpb.Counter{{Policy: "other"}} }, []uint32{9}, hint},
	} {
		f := semantic(t, semanticCheck(c.edit), c.hits...).Finding(c.count, c.similarity)
		if f.GetAction() != c.want || (f != nil && (f.Hint() == "" || f.GetWindowSeconds() != 600)) {
			t.Errorf("%s: %v, want %s", name, f, c.want.Label())
		}
		if f.GetAction() == throttle && f.GetDelayMs() != 300 {
			t.Errorf("%s: throttled for %d ms", name, f.GetDelayMs())
		}
	}
}

// counted adds a counter and a tool watch of the same policy.
func counted(c *checkpb.Check, _ *checkpb.SemanticWatch) {
	c.Counters, c.Watches = []*checkpb.Counter{{Policy: "p", Detector: "prompt", Fingerprint: hash("prompt"), WindowSeconds: 60}}, []*checkpb.ToolWatch{{Policy: "p"}}
}

func TestStepsOfAStreak(t *testing.T) {
	t.Parallel()
	s := semantic(t, semanticCheck(nil))
	match := streak.Comparison{Compared: true, Similar: true, Similarity: 0.97, MinMatches: 1}
	state, m, ttl := s.Compare(streak.State{}, match)
	if m.Count != 1 || ttl != 10*time.Minute {
		t.Errorf("a match: %+v, kept for %s", m, ttl)
	}
	if _, _, ttl = s.Compare(streak.State{}, streak.Comparison{}); ttl != 0 {
		t.Errorf("no comparison of a new scope is kept for %s", ttl)
	}
	if next, _, ttl := s.Compare(state, streak.Comparison{Compared: true}); ttl != time.Second || !next.IsZero() {
		t.Errorf("the end of a streak is kept for %s: %+v", ttl, next)
	}
	if _, _, ttl := s.Recall(state); ttl != 0 {
		t.Error("a recall that changes nothing was stored")
	}
	state, ttl = s.Postpone(state, 0.96)
	_, r, kept := s.Recall(state)
	if ttl == 0 || kept == 0 || s.Late(r).GetAction() != hint || s.Late(streak.Recalled{}) != nil {
		t.Errorf("postponed: %+v", r)
	}
}

func TestIncidentsOfMatches(t *testing.T) {
	t.Parallel()
	s := semantic(t, semanticCheck(counted), 2, 0)
	f := s.Finding(3, 0.97)
	in := s.Incident(f, streak.Match{Recalled: streak.Recalled{Incident: "first"}, Known: true}, noon)
	if in.Conversation != "first" || in.Hits != 0 || in.Similarity != 0.97 || len(in.Related) != 3 {
		t.Errorf("incident %+v", in.Finding)
	}
	s = semantic(t, semanticCheck(counted), 1, 0)
	if in = s.Incident(f, streak.Match{}, noon); in.Conversation != "5e55" || in.Hits != 1 || len(in.Related) != 2 {
		t.Errorf("incident %+v", in.Finding)
	}
}

func TestExcusedAndReleasedStreaks(t *testing.T) {
	t.Parallel()
	w := semanticCheck(nil).GetSemantics()[0]
	update, ok := evaluate.ExcuseText(w, []byte{0xab})
	if !ok {
		t.Fatal("nothing to excuse")
	}
	next, ttl := update.Step(streak.State{}, noon)
	want := streak.State{Calls: []streak.Call{{Text: "ab", Open: true}}}
	if diff := cmp.Diff(want, next); diff != "" || ttl != 10*time.Minute {
		t.Errorf("kept for %s (-want +got):\n%s", ttl, diff)
	}
	if _, ok := evaluate.ExcuseText(w, nil); ok {
		t.Error("a text without a digest was excused")
	}
	ref := &checkpb.CounterRef{Policy: "p", Fingerprint: w.GetScope()}
	for kept, want := range map[time.Duration]time.Duration{time.Hour: time.Hour + time.Second, 0: 30*24*time.Hour + time.Second} {
		end := evaluate.EndStreak(ref, kept)
		if next, ttl := end.Step(next, noon); next.Released != noon.UnixMilli() || len(next.Calls) != 0 || ttl != want || end.Key != update.Key {
			t.Errorf("released: %+v, kept for %s", next, ttl)
		}
	}
}

func TestFindingsOnTheWireAreWhole(t *testing.T) {
	t.Parallel()
	want := &checkpb.Finding{
		Policy: "p", Detector: "semantic", Fingerprint: hash("scope"), Action: hint, HitCount: 1, Threshold: 1, WindowSeconds: 600, Similarity: 0.97,
	}
	if diff := cmp.Diff(want, semantic(t, semanticCheck(nil)).Finding(1, 0.97), protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Texts from an earlier turn of the conversation count for seconds: an agent that is woken
// says the same again.
func TestTextsFromAnEarlierTurnCountForSeconds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		turned bool
		ages   []time.Duration
		counts int
		match  bool
	}{
		"within one turn":         {false, []time.Duration{time.Second, 59 * time.Minute}, 2, true},
		"turns that come quickly": {true, []time.Duration{time.Second, 20 * time.Second}, 2, true},
		"one of them older":       {true, []time.Duration{time.Second, 20*time.Second + time.Millisecond}, 1, false},
		"enough without the old":  {true, []time.Duration{time.Second, 2 * time.Second, time.Hour}, 2, true},
		"all of them older":       {true, []time.Duration{15 * time.Minute, 30 * time.Minute}, 0, false},
	} {
		reply := &semanticpb.SemanticReply{Judged: true, Detected: true, MaxSimilarity: 0.97}
		for _, age := range c.ages {
			reply.Matches = append(reply.Matches, &semanticpb.SemanticMatch{RequestId: "a", AgeMs: uint32(age.Milliseconds())})
		}
		s := semantic(t, semanticCheck(func(_ *checkpb.Check, w *checkpb.SemanticWatch) { w.Turned = c.turned }))
		if got := s.Comparison(reply, true, "id", "", noon); len(got.Matches) != c.counts || got.Similar != c.match {
			t.Errorf("%s: %d texts count, a match is %t; want %d and %t", name, len(got.Matches), got.Similar, c.counts, c.match)
		}
	}
}
