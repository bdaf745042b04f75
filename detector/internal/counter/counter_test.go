package counter

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	warn     = checkpb.Action_ACTION_WARN
	throttle = checkpb.Action_ACTION_THROTTLE
	reject   = checkpb.Action_ACTION_REJECT
)

var epoch = time.UnixMilli(1_790_000_000_000)

func request(threshold int, window time.Duration, action checkpb.Action) Params {
	return Params{Window: checkpb.Window_WINDOW_REFRESH, Length: window, Steps: []Level{{threshold, action}}}
}

func prompt(maxHits int, window, cooldown time.Duration) Params {
	return Params{
		Window: checkpb.Window_WINDOW_SLIDING, Length: window, Cooldown: cooldown,
		Steps: []Level{{maxHits + 1, reject}},
	}
}

// hits drives a state through n hits that are gap apart and returns the last verdict.
func hits(s State, p Params, n int, from time.Time, gap time.Duration) (State, Verdict) {
	var v Verdict
	for i := range n {
		s, v = Step(s, p, Hit{}, from.Add(time.Duration(i)*gap))
	}
	return s, v
}

func TestRequestFiresAtItsThreshold(t *testing.T) {
	t.Parallel()
	p := request(10, time.Minute, reject)
	s, v := hits(State{}, p, 9, epoch, time.Second)
	if v.Fired || v.Count != 9 {
		t.Errorf("9th hit: fired %v, count %d; want allowed, 9", v.Fired, v.Count)
	}
	s, v = Step(s, p, Hit{}, epoch.Add(9*time.Second))
	if !v.Fired || v.Action != reject || v.Count != 10 {
		t.Errorf("10th hit: %+v; want a reject at 10", v)
	}
	_, v = hits(s, p, 5, epoch.Add(10*time.Second), time.Second)
	if !v.Fired || v.Count != 15 {
		t.Errorf("15th hit: fired %v, count %d; want rejected, 15", v.Fired, v.Count)
	}
}

func TestThrottleGrowsWithTheCount(t *testing.T) {
	t.Parallel()
	p := request(5, time.Minute, throttle)
	for n, want := range map[int]time.Duration{4: 0, 5: 500 * time.Millisecond, 10: time.Second, 300: 30 * time.Second, 450: 30 * time.Second} {
		if _, v := hits(State{}, p, n, epoch, 0); v.Delay != want {
			t.Errorf("hit %d is delayed %s, want %s", n, v.Delay, want)
		}
	}
}

func TestRefreshOutlivesWhatFixedForgets(t *testing.T) {
	t.Parallel()
	p := request(3, 2*time.Second, reject)
	if _, v := hits(State{}, p, 3, epoch, 1500*time.Millisecond); !v.Fired {
		t.Error("refresh: third hit, each within the window of the one before, was not detected")
	}
	p.Window = checkpb.Window_WINDOW_FIXED
	s := State{}
	for i := range 50 {
		var v Verdict
		if s, v = Step(s, p, Hit{}, epoch.Add(time.Duration(i)*1500*time.Millisecond)); v.Fired {
			t.Fatalf("fixed: hit %d fired although no window holds three", i+1)
		}
	}
}

func TestPromptLetsMaxHitsThroughAndBlocksForItsCooldown(t *testing.T) {
	t.Parallel()
	p := prompt(5, 60*time.Second, 30*time.Second)
	s, v := hits(State{}, p, 5, epoch, time.Second)
	if v.Fired {
		t.Fatalf("5th hit fired: %+v", v)
	}
	s, v = Step(s, p, Hit{}, epoch.Add(5*time.Second))
	if !v.Began || v.Blocked != 30*time.Second || v.Count != 6 {
		t.Fatalf("6th hit: %+v; want a cooldown of 30 s that begins, count 6", v)
	}
	s, v = Step(s, p, Hit{}, epoch.Add(15*time.Second))
	if !v.Fired || v.Began || v.Blocked != 20*time.Second || v.Count != 7 {
		t.Errorf("during the cooldown: %+v; want blocked for the 20 s left, count 7", v)
	}
	if _, v = Step(s, p, Hit{}, epoch.Add(36*time.Second)); !v.Began {
		t.Errorf("after the cooldown, window still full: %+v; want a new cooldown", v)
	}
	if _, v = Step(s, p, Hit{}, epoch.Add(76*time.Second)); v.Fired || v.Count != 1 {
		t.Errorf("after the window: %+v; want a first hit", v)
	}
}

func TestCooldownLongerThanTheWindowStands(t *testing.T) {
	t.Parallel()
	p := prompt(1, time.Second, 30*time.Second)
	s, _ := hits(State{}, p, 2, epoch, 0)
	_, v := Step(s, p, Hit{}, epoch.Add(10*time.Second))
	if !v.Fired || v.Action != reject || v.Blocked != 20*time.Second {
		t.Errorf("window forgotten, cooldown standing: %+v; want rejected for 20 s more", v)
	}
}

func TestStepsEscalate(t *testing.T) {
	t.Parallel()
	p := request(3, time.Minute, warn)
	p.Steps = []Level{{3, warn}, {5, throttle}, {8, reject}}
	want := []checkpb.Action{0, 0, warn, warn, throttle, throttle, throttle, reject, reject}
	for _, window := range []checkpb.Window{checkpb.Window_WINDOW_REFRESH, checkpb.Window_WINDOW_SLIDING, checkpb.Window_WINDOW_FIXED} {
		p.Window = window
		var got []checkpb.Action
		s := State{}
		for range want {
			var v Verdict
			s, v = Step(s, p, Hit{}, epoch)
			got = append(got, v.Action)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: actions by hit (-want +got):\n%s", window, diff)
		}
	}
}

func TestRetriesDoNotCountButForgedOnesDo(t *testing.T) {
	t.Parallel()
	p := prompt(5, time.Minute, 30*time.Second)
	s, _ := Step(State{}, p, Hit{}, epoch)
	for range maxForgiven {
		var v Verdict
		if s, v = Step(s, p, Hit{Retry: true}, epoch); v.Count != 1 {
			t.Fatalf("retry counted: %+v", v)
		}
	}
	requests := 1 + maxForgiven
	for v := (Verdict{}); !v.Fired; requests++ {
		if s, v = Step(s, p, Hit{Retry: true}, epoch); requests > 100 {
			t.Fatal("a client that marks every request as a retry is never caught")
		}
	}
	if want := 5*(1+maxForgiven) + 1; requests != want {
		t.Errorf("caught at request %d, want %d: each counted hit has %d free retries", requests, want, maxForgiven)
	}
	if _, v := Step(State{}, p, Hit{Retry: true}, epoch); v.Count != 1 {
		t.Errorf("a retry of nothing has count %d, want 1", v.Count)
	}
}

func TestRequestUnderTheSameIdempotencyKeyIsARetry(t *testing.T) {
	t.Parallel()
	p := prompt(5, time.Minute, 0)
	s, _ := Step(State{}, p, Hit{Key: "k1"}, epoch)
	s, v := Step(s, p, Hit{Key: "k1"}, epoch)
	if v.Count != 1 {
		t.Errorf("the same key again has count %d, want 1", v.Count)
	}
	if _, v = Step(s, p, Hit{Key: "k2"}, epoch); v.Count != 2 {
		t.Errorf("another key has count %d, want 2", v.Count)
	}
	requests := 0
	for v = (Verdict{}); !v.Fired && requests < 100; requests++ {
		s, v = Step(s, p, Hit{Key: "k1"}, epoch)
	}
	if requests == 100 {
		t.Error("a client that always sends one key is never caught")
	}
}

func TestReplayOfAFailedCallDoesNotCount(t *testing.T) {
	t.Parallel()
	p := prompt(5, time.Minute, 0)
	s, _ := Step(State{}, p, Hit{}, epoch)
	s, v := Step(Excuse(s, false), p, Hit{}, epoch)
	if v.Count != 1 {
		t.Errorf("replay after a failure has count %d, want 1", v.Count)
	}
	if _, v = Step(s, p, Hit{}, epoch); v.Count != 2 {
		t.Errorf("next one has count %d, want 2: one failure excuses one replay", v.Count)
	}
	if Excuse(State{}, false).Excused {
		t.Error("a failure of nothing is remembered")
	}
}

func TestBatchedHitsCountLikeSingleOnes(t *testing.T) {
	t.Parallel()
	p := prompt(5, time.Minute, 30*time.Second)
	_, batched := Step(State{}, p, Hit{N: 40}, epoch)
	_, single := hits(State{}, p, 40, epoch, 0)
	if batched.Count != single.Count || batched.Blocked != single.Blocked {
		t.Errorf("40 at once: %+v; one by one: %+v", batched, single)
	}
}

func TestBrokenClocksAndRecordsHealThemselves(t *testing.T) {
	t.Parallel()
	p := prompt(1, time.Minute, 30*time.Second)
	year := epoch.AddDate(1, 0, 0).UnixMilli()
	for name, s := range map[string]State{
		"record from the future": {Count: 9, First: year, Last: year, Hits: []int64{year, year}, BlockedUntil: year},
		"negative count":         {Count: -5, Last: epoch.UnixMilli()},
	} {
		if _, v := Step(s, p, Hit{}, epoch); v.Fired || v.Count != 1 {
			t.Errorf("%s: %+v; want a first hit", name, v)
		}
	}
	s := State{Count: 2, Last: epoch.UnixMilli(), BlockedUntil: year}
	if _, v := Step(s, p, Hit{}, epoch); v.Blocked > 30*time.Second {
		t.Errorf("blocked for %s, longer than any cooldown", v.Blocked)
	}
}

// A sliding window fires exactly when a list of all hit times says so, and
// keeps no more of them than it takes.
func TestSlidingWindowAgreesWithAllHitTimes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := prompt(rapid.IntRange(1, 8).Draw(t, "max hits"), time.Duration(rapid.IntRange(1, 20).Draw(t, "window"))*time.Second, 0)
		var all []time.Time
		s, now := State{}, epoch
		for range rapid.IntRange(1, 60).Draw(t, "hits") {
			now = now.Add(time.Duration(rapid.IntRange(0, 8000).Draw(t, "gap ms")) * time.Millisecond)
			all = append(all, now)
			within := 0
			for _, hit := range all {
				if now.Sub(hit) < p.Length {
					within++
				}
			}
			var v Verdict
			s, v = Step(s, p, Hit{}, now)
			if fires := within >= p.limit(); v.Fired != fires {
				t.Fatalf("%d of %d hits within the window: fired %v", within, len(all), v.Fired)
			}
			if within < p.limit() && v.Count != within {
				t.Fatalf("count %d, want exactly %d below the threshold", v.Count, within)
			}
			if len(s.Hits) > p.depth() {
				t.Fatalf("%d hit times kept, %d are enough", len(s.Hits), p.depth())
			}
		}
	})
}

// Whatever comes, a state survives its own encoding, its TTL covers it, and a
// record whose TTL has passed means the same as none.
func TestStatesSurviveStorageAndExpireWithTheirTTL(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyParams(t)
		s, now := State{}, epoch
		for range rapid.IntRange(1, 30).Draw(t, "hits") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "gap ms")) * time.Millisecond)
			s, _ = Step(s, p, Hit{N: rapid.IntRange(0, 4).Draw(t, "n"), Retry: rapid.Bool().Draw(t, "retry"), Incident: "ab"}, now)
			var back State
			if err := back.Parse(s.Append(nil)); err != nil {
				t.Fatalf("stored state %s: %v", s.Append(nil), err)
			}
			if diff := cmp.Diff(s, back); diff != "" {
				t.Fatalf("stored and read (-before +after):\n%s", diff)
			}
		}
		after := now.Add(s.TTL(p, now))
		_, kept := Step(s, p, Hit{}, after)
		_, gone := Step(State{}, p, Hit{}, after)
		if kept.Fired != gone.Fired || kept.Count != gone.Count {
			t.Fatalf("after its TTL: %+v, without the record: %+v", kept, gone)
		}
	})
}

func anyParams(t *rapid.T) Params {
	p := Params{
		Window:   checkpb.Window(rapid.IntRange(1, 3).Draw(t, "window kind")),
		Length:   time.Duration(rapid.IntRange(1, 10).Draw(t, "window")) * time.Second,
		Cooldown: time.Duration(rapid.IntRange(0, 20).Draw(t, "cooldown")) * time.Second,
	}
	at := 0
	for range rapid.IntRange(1, 3).Draw(t, "steps") {
		at += rapid.IntRange(1, 4).Draw(t, "at")
		p.Steps = append(p.Steps, Level{at, checkpb.Action(rapid.IntRange(1, 5).Draw(t, "action"))})
	}
	return p
}

func TestWireParametersAreChecked(t *testing.T) {
	t.Parallel()
	good := func() *checkpb.Counter {
		return &checkpb.Counter{
			Fingerprint: make([]byte, 32), Window: checkpb.Window_WINDOW_SLIDING, WindowSeconds: 60,
			Steps: []*checkpb.Step{{At: 6, Action: reject}},
		}
	}
	if _, err := FromWire(good()); err != nil {
		t.Fatalf("good counter refused: %v", err)
	}
	for name, spoil := range map[string]func(*checkpb.Counter){
		"short fingerprint": func(c *checkpb.Counter) { c.Fingerprint = []byte("x") },
		"no window":         func(c *checkpb.Counter) { c.Window = 0 },
		"unknown window":    func(c *checkpb.Counter) { c.Window = 99 },
		"no length":         func(c *checkpb.Counter) { c.WindowSeconds = 0 },
		"endless length":    func(c *checkpb.Counter) { c.WindowSeconds = 1 << 31 },
		"endless cooldown":  func(c *checkpb.Counter) { c.CooldownSeconds = 1 << 31 },
		"no steps":          func(c *checkpb.Counter) { c.Steps = nil },
		"steps that fall":   func(c *checkpb.Counter) { c.Steps = append(c.Steps, &checkpb.Step{At: 5, Action: reject}) },
		"step at nothing":   func(c *checkpb.Counter) { c.Steps[0].At = 0 },
		"huge threshold":    func(c *checkpb.Counter) { c.Steps[0].At = MaxThreshold + 1 },
		"no action":         func(c *checkpb.Counter) { c.Steps[0].Action = 0 },
		"unknown action":    func(c *checkpb.Counter) { c.Steps[0].Action = 77 },
	} {
		c := good()
		spoil(c)
		if _, err := FromWire(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzStep: no stored record, however broken, makes a step panic, lose the hit
// or grow without bound.
func FuzzStep(f *testing.F) {
	f.Add(State{Count: 3, First: 1, Last: 2, Hits: []int64{1, 2}}.Append(nil), int64(60_000), 5, uint8(2))
	f.Add(State{Count: -1, Last: math.MaxInt64}.Append(nil), int64(1), 1, uint8(1))
	f.Add(State{Hits: []int64{9, 8, 7, -1}}.Append(nil), int64(1000), 3, uint8(3))
	f.Fuzz(func(t *testing.T, record []byte, windowMS int64, threshold int, kind uint8) {
		var s State
		if s.Parse(record) != nil {
			return
		}
		p := Params{
			Window: checkpb.Window(kind%3 + 1), Length: time.Duration(windowMS%1e9+1) * time.Millisecond,
			Cooldown: time.Second, Steps: []Level{{max(threshold%MaxThreshold, 1), reject}},
		}
		if p.Length <= 0 {
			return
		}
		next, v := Step(s, p, Hit{}, epoch)
		if v.Count < 1 && v.Blocked == 0 {
			t.Fatalf("hit was lost: %+v", v)
		}
		if len(next.Hits) > p.depth() {
			t.Fatalf("%d hit times kept, %d are enough", len(next.Hits), p.depth())
		}
		if v.Blocked > p.Cooldown {
			t.Fatalf("blocked for %s, longer than the cooldown", v.Blocked)
		}
	})
}

func TestStreamsThatTheClientAbortsEachTimeAreCaughtAtTheEighth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		aborted bool
		want    int
	}{"aborted": {true, 8}, "failed": {false, 16}} {
		p := prompt(5, time.Hour, 0)
		var s State
		for n := 1; n <= 20; n++ {
			var v Verdict
			if s, v = Step(s, p, Hit{}, epoch.Add(time.Duration(n)*time.Second)); v.Fired {
				if n != c.want {
					t.Errorf("%s: fires at the call %d, want %d", name, n, c.want)
				}
				break
			}
			s = Excuse(s, c.aborted)
		}
		if s.Count == 0 || (s.Aborted > 0) != c.aborted {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A sample is judged as a hit of its round, and does not count.
func TestASampleDoesNotCount(t *testing.T) {
	t.Parallel()
	p := prompt(2, time.Minute, 30*time.Second)
	s, v := Step(State{}, p, Hit{Sample: true}, epoch)
	if v.Counted || v.Fired || v.Count != 0 {
		t.Errorf("a sample before its round's hit: %+v", v)
	}
	for round := range 2 {
		s, _ = Step(s, p, Hit{}, epoch)
		for range 7 {
			if s, v = Step(s, p, Hit{Sample: true}, epoch); v.Counted || v.Fired || v.Count != round+1 {
				t.Errorf("round %d: a sample %+v", round+1, v)
			}
		}
	}
	s, _ = Step(s, p, Hit{}, epoch)
	if _, v = Step(s, p, Hit{Sample: true}, epoch); v.Action != reject || v.Count != 3 || v.Counted || v.Began {
		t.Errorf("a sample of the round that is stopped: %+v", v)
	}
}
