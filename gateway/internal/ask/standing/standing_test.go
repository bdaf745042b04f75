package standing

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/semanticpb"
)

func checkOf(id string) *checkpb.Check {
	return &checkpb.Check{RequestId: id, Counters: []*checkpb.Counter{{Policy: "p", Detector: "prompt", Fingerprint: []byte(id), WindowSeconds: 60, CooldownSeconds: 30}}}
}

// blockFinding is a finding whose reject stands for ten seconds.
func blockFinding(id string) *checkpb.Finding {
	return &checkpb.Finding{
		Policy: "p", Detector: "prompt", Fingerprint: []byte(id), Action: checkpb.Action_ACTION_REJECT,
		HitCount: 6, BlockedMs: 10_000, LoopId: "loop",
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := New()
	for i := range maxBlocks + 10 {
		b.Learn(now, blockFinding(fmt.Sprint(i)))
	}
	if b.Len() != maxBlocks {
		t.Errorf("%d blocks are remembered, at most %d may be", b.Len(), maxBlocks)
	}
	answered := 0
	for i := range maxReports + 10 {
		if b.Decision(now, checkOf(fmt.Sprint(i))) != nil {
			answered++
		}
	}
	if answered != maxReports {
		t.Errorf("%d hits wait to be reported, at most %d may; the others must be checked", answered, maxReports)
	}
}

// A forged or stale message about a block never makes it longer than the policy
// says, and is of no use where the policy knows no blocks.
func TestABlockIsNeverLongerThanItsPolicySays(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := New()
	forged := blockFinding("x")
	forged.BlockedMs = math.MaxUint32
	b.Learn(now, forged)
	check := checkOf("x") // its cooldown is 30 seconds, its window 60
	if d := b.Decision(now, check); d == nil || d.GetFindings()[0].GetBlockedMs() > 60_000 {
		t.Errorf("blocked by %v", d)
	}
	now = now.Add(61 * time.Second)
	if d := b.Decision(now, check); d != nil {
		t.Errorf("still blocked after its window: %v", d)
	}
	other := blockFinding("y")
	b.Learn(now, other)
	counter := checkOf("y")
	counter.Counters[0].WindowSeconds, counter.Counters[0].CooldownSeconds = 0, 0
	if d := b.Decision(now, counter); d != nil {
		t.Errorf("a counter without a window is blocked: %v", d)
	}
}

func TestABlockIsDecidedFromMemoryUntilItEnds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := New()
	if s.Decision(now, checkOf("x")) != nil {
		t.Error("there is a decision without a block")
	}
	s.Learn(now, blockFinding("x"))
	for i, c := range []struct {
		after   time.Duration
		left    uint32 // of the block, in milliseconds; 0 for none
		hits    uint32
		peeking bool
	}{
		{4 * time.Second, 6000, 7, false},
		{5 * time.Second, 5000, 7, true},
		{5 * time.Second, 5000, 8, false},
		{10*time.Second - time.Microsecond, 0, 0, false},
		{0, 0, 0, false}, // its end was final
	} {
		check := checkOf("x")
		check.Peek = c.peeking
		d := s.Decision(now.Add(c.after), check)
		if c.left == 0 {
			if d != nil {
				t.Errorf("step %d: %v", i, d)
			}
			continue
		}
		f := d.GetFindings()[0]
		if f.GetBlockedMs() != c.left || f.GetHitCount() != c.hits || d.GetAction() != checkpb.Action_ACTION_REJECT || f.GetLoopId() != "loop" {
			t.Errorf("step %d: %v", i, d)
		}
	}
}

func TestOnlyFindingsThatBlockAreLearned(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*checkpb.Finding)
		want   int
	}{
		"a reject":         {func(*checkpb.Finding) {}, 1},
		"a break":          {func(f *checkpb.Finding) { f.Action = checkpb.Action_ACTION_BREAK }, 1},
		"a throttle":       {func(f *checkpb.Finding) { f.Action = checkpb.Action_ACTION_THROTTLE }, 0},
		"in shadow":        {func(f *checkpb.Finding) { f.Shadow = true }, 0},
		"without a length": {func(f *checkpb.Finding) { f.BlockedMs = 0 }, 0},
	} {
		s := New()
		f := blockFinding("x")
		c.change(f)
		if s.Confirm(time.Now(), nil, &checkpb.Decision{Findings: []*checkpb.Finding{f, nil}}); s.Len() != c.want {
			t.Errorf("%s: %d blocks", name, s.Len())
		}
	}
}

func TestTheLongestFindingCounts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := New()
	for _, ms := range []uint32{10_000, 20_000, 5_000} {
		f := blockFinding("x")
		f.BlockedMs = ms
		s.Learn(now, f)
	}
	if left := s.Decision(now, checkOf("x")).GetFindings()[0].GetBlockedMs(); left != 20_000 {
		t.Errorf("%d ms are left", left)
	}
}

// What detectors publish of a block that is known does not make it longer, however late it
// is read. A decision that says so does.
func TestAnEchoOfABlockDoesNotMakeItLonger(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := New()
	s.Confirm(now, nil, &checkpb.Decision{Findings: []*checkpb.Finding{blockFinding("x")}})
	now = now.Add(3 * time.Second)
	s.Learn(now, blockFinding("x"))
	if left := s.Decision(now, checkOf("x")).GetFindings()[0].GetBlockedMs(); left != 7_000 {
		t.Errorf("after its echo, %d ms are left", left)
	}
	now = now.Add(8 * time.Second)
	s.Learn(now, blockFinding("x"))
	if d := s.Decision(now, checkOf("x")); d != nil {
		t.Errorf("an echo after its end: %v", d)
	}
	s.Confirm(now, nil, &checkpb.Decision{Findings: []*checkpb.Finding{blockFinding("x")}})
	if s.Decision(now, checkOf("x")) == nil {
		t.Error("a detector's decision is not believed")
	}
}

// A check is blocked by each of its counters, and by the sessions together that one of them
// belongs to, but by none in shadow.
func TestWhichCountersBlock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	counter := func(change func(*checkpb.Counter)) *checkpb.Counter {
		c := checkOf("own").GetCounters()[0]
		change(c)
		return c
	}
	for name, c := range map[string]struct {
		counters []*checkpb.Counter
		want     int
	}{
		"none":             {nil, 0},
		"its own":          {[]*checkpb.Counter{counter(func(*checkpb.Counter) {})}, 1},
		"another's":        {[]*checkpb.Counter{counter(func(c *checkpb.Counter) { c.Fingerprint = []byte("other") })}, 0},
		"another policy's": {[]*checkpb.Counter{counter(func(c *checkpb.Counter) { c.Policy = "q" })}, 0},
		"in shadow":        {[]*checkpb.Counter{counter(func(c *checkpb.Counter) { c.Shadow = true })}, 0},
		"sessions together": {[]*checkpb.Counter{counter(func(c *checkpb.Counter) {
			c.Fingerprint, c.Together = []byte("a"), &checkpb.Together{Fingerprint: []byte("all")}
		})}, 1},
		"both": {[]*checkpb.Counter{counter(func(c *checkpb.Counter) { c.Together = &checkpb.Together{Fingerprint: []byte("all")} })}, 2},
		"neither": {[]*checkpb.Counter{counter(func(c *checkpb.Counter) {
			c.Fingerprint, c.Together = []byte("a"), &checkpb.Together{Fingerprint: []byte("b")}
		})}, 0},
	} {
		s := New()
		s.Confirm(now, nil, &checkpb.Decision{Findings: []*checkpb.Finding{blockFinding("own"), blockFinding("all")}})
		if got := len(s.Decision(now, &checkpb.Check{Counters: c.counters}).GetFindings()); got != c.want {
			t.Errorf("%s: %d findings, want %d", name, got, c.want)
		}
	}
}

func TestReleasedBlocksAreForgottenWithTheirHits(t *testing.T) {
	t.Parallel()
	record := strings.Repeat("r", sha256.Size/2)
	parts := []string{record + "1", record + "2", "other"}
	ref := func(fingerprint string) *checkpb.CounterRef {
		return &checkpb.CounterRef{Policy: "p", Detector: "prompt", Fingerprint: []byte(fingerprint)}
	}
	for name, c := range map[string]struct {
		refs []*checkpb.CounterRef
		left int
	}{
		"none":               {nil, 3},
		"one":                {[]*checkpb.CounterRef{ref("other")}, 2},
		"a record's parts":   {[]*checkpb.CounterRef{ref(record)}, 1},
		"two":                {[]*checkpb.CounterRef{ref("other"), ref(parts[0])}, 1},
		"unknown":            {[]*checkpb.CounterRef{ref("unknown")}, 3},
		"another detector's": {[]*checkpb.CounterRef{{Policy: "p", Detector: "request", Fingerprint: []byte(record)}}, 3},
		"a whole hash":       {[]*checkpb.CounterRef{ref(strings.Repeat("r", sha256.Size))}, 3},
	} {
		s, now := New(), time.Now()
		for _, p := range parts {
			s.Learn(now, blockFinding(p))
			s.Decision(now, checkOf(p))
		}
		before := s.Releases()
		s.Forget(c.refs...)
		if s.Len() != c.left || s.Releases() == before || len(s.TakeReports(now)) > 0 {
			t.Errorf("%s: %d blocks are left, want %d", name, s.Len(), c.left)
		}
	}
}

// What is doubted decides only where no detector answers, and ends where one does not find
// it again.
func TestDoubtedBlocksStandUntilADetectorAnswers(t *testing.T) {
	t.Parallel()
	s, now := New(), time.Now()
	s.Learn(now, blockFinding("ended"), blockFinding("standing"))
	s.Decision(now, checkOf("ended"))
	before := s.Releases()
	s.Doubt()
	if s.Releases() == before || len(s.TakeReports(now)) > 0 {
		t.Error("an earlier decision may be learned, or hits on a block are reported")
	}
	for _, id := range []string{"ended", "standing"} {
		if s.Decision(now, checkOf(id)) != nil || s.Doubted(now, checkOf(id)) == nil {
			t.Errorf("%s: a doubted block decides, or does not stand without an answer", id)
		}
	}
	s.Confirm(now, checkOf("ended"), nil)
	s.Confirm(now, checkOf("standing"), &checkpb.Decision{Findings: []*checkpb.Finding{blockFinding("standing")}})
	if s.Doubted(now, checkOf("ended")) != nil || s.Decision(now, checkOf("standing")) == nil {
		t.Error("the answers are not taken")
	}
	s.Doubt()
	if s.Learn(now, blockFinding("standing")); s.Decision(now, checkOf("standing")) == nil {
		t.Error("a block that is broadcast again is doubted")
	}
}

func TestHitsAreReportedOnceForAllCountersOfACheck(t *testing.T) {
	t.Parallel()
	s, now := New(), time.Now()
	if reports := s.TakeReports(now); len(reports) > 0 {
		t.Errorf("reports %v without a hit", reports)
	}
	s.Confirm(now, nil, &checkpb.Decision{Findings: []*checkpb.Finding{blockFinding("x")}})
	check := checkOf("x")
	check.Exchange, check.Semantics = &semanticpb.Exchange{}, []*checkpb.SemanticWatch{{}}
	check.Counters = append(check.Counters, &checkpb.Counter{Policy: "other", Detector: "request", Fingerprint: []byte("y"), Opening: &checkpb.Opening{}})
	for range 40 {
		s.Decision(now, check)
	}
	check.Peek = true
	s.Decision(now, check)
	reports := s.TakeReports(now)
	if len(reports) != 1 || reports[0].GetHits() != 40 || len(reports[0].GetCounters()) != 2 || reports[0].GetExchange() != nil || reports[0].GetSemantics() != nil || reports[0].GetCounters()[1].GetOpening() != nil {
		t.Errorf("reports %v; want 40 hits for both counters, and neither texts nor openings", reports)
	}
	if s.Len() != 1 || len(s.TakeReports(now.Add(11*time.Second))) > 0 || s.Len() != 0 {
		t.Error("the same hits were reported twice, or a block that is over stays")
	}
}

func TestHitsOfOneReportAreBounded(t *testing.T) {
	t.Parallel()
	s, now := New(), time.Now()
	s.Learn(now, blockFinding("x"))
	s.Decision(now, checkOf("x"))
	for _, r := range s.reports {
		r.Hits = maxHitsPerReport
	}
	s.Decision(now, checkOf("x"))
	if r := s.TakeReports(now); r[0].GetHits() != maxHitsPerReport {
		t.Errorf("%d hits", r[0].GetHits())
	}
}

// Samples of a blocked prompt are blocked with it, and count no more than before a detector.
func TestSamplesOfABlockedPromptDoNotCount(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := New()
	b.Learn(now, blockFinding("x"))
	sample := checkOf("x")
	sample.Counters[0].Sample = true
	for range 3 {
		if d := b.Decision(now, sample); d.GetFindings()[0].GetHitCount() != 6 {
			t.Errorf("a sample: %v", d)
		}
	}
	if d := b.Decision(now, checkOf("x")); d.GetFindings()[0].GetHitCount() != 7 {
		t.Errorf("a further round: %v", d)
	}
	hits := map[bool]uint32{}
	for _, r := range b.TakeReports(now) {
		hits[r.GetCounters()[0].GetSample()] += r.GetHits()
	}
	if hits[true] != 3 || hits[false] != 1 {
		t.Errorf("reported hits by sample: %v", hits)
	}
}

// A block does not stand for a request whose prompt only warns.
func TestABlockStopsNoWorkload(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := New()
	b.Learn(now, blockFinding("x"))
	workload := checkOf("x")
	workload.Counters[0].Steps = []*checkpb.Step{{At: 6, Action: checkpb.Action_ACTION_WARN}}
	if d := b.Decision(now, workload); d != nil {
		t.Errorf("stopped by %v", d)
	}
}

// A block of a prompt that repeats a tool's call says which tool it is.
func TestABlockNamesTheToolThatWasCalled(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := New()
	other := &checkpb.Finding{Policy: "q", Detector: "tool", Tool: "read", Action: checkpb.Action_ACTION_REJECT}
	named := &checkpb.Finding{Policy: "p", Detector: "tool", Tool: "bash", Action: checkpb.Action_ACTION_REJECT, HitCount: 5}
	b.Learn(now, blockFinding("x")) // as another gateway told
	b.Confirm(now, checkOf("x"), &checkpb.Decision{Findings: []*checkpb.Finding{other, blockFinding("x"), named}})
	if d := b.Decision(now, checkOf("x")); len(d.GetFindings()) != 2 || d.GetFindings()[1].GetTool() != "bash" {
		t.Errorf("%v", d)
	}
	hint := proto.CloneOf(named)
	hint.Action = checkpb.Action_ACTION_HINT
	b.Confirm(now, checkOf("y"), &checkpb.Decision{Findings: []*checkpb.Finding{hint, blockFinding("y")}})
	if len(b.Decision(now, checkOf("y")).GetFindings()) != 1 {
		t.Error("a hint does not stop the request")
	}
}
