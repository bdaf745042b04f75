package toolloop_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/detector/internal/toolloop"
)

func TestCallsThatAreCanceledCountNothing(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for range 9 {
		s.wantLevels(times(1, call("A", "")), allow)
		s.cancel(call("A", ""))
	}
	if n := s.state.Stats(); n != (toolloop.Stats{}) {
		t.Errorf("%+v", n)
	}
	s.wantLevels(times(5, call("A", "")), allow, allow, warn, warn, block)
}

func TestCanceledCallsAreNotTheMostRepeated(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.check(call("A", ""))
	for range 2 {
		s.check(call("B", ""))
	}
	for _, want := range []toolloop.Stats{{MostRepeated: "B", MostRepeatedCount: 2}, {MostRepeated: "B", MostRepeatedCount: 1}, {MostRepeated: "A", MostRepeatedCount: 1}} {
		if n := s.state.Stats(); n.MostRepeated != want.MostRepeated || n.MostRepeatedCount != want.MostRepeatedCount {
			t.Errorf("%+v, want %+v", n, want)
		}
		s.cancel(call("B", ""))
	}
}

// A call whose result is known was made, and so was one that a history shows.
func TestCallsThatWereMadeAreNotCanceled(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.check(call("A", ""))
	s.result(call("A", "x"))
	s.cancel(call("A", ""))
	s.cancel(call("B", ""))
	s.check(call("C", ""))
	s.request(join([]toolloop.Item{human("go")}, rounds("C:1")))
	s.cancel(call("C", ""))
	if n := s.state.Stats(); n.Total != 2 {
		t.Errorf("%+v", n)
	}
}

// What is allowed and canceled at once leaves no trace in what is found afterwards, as far as all of
// it is remembered, but for wide loops, which a call of another kind ends.
func TestCanceledChecksChangeNoCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plain := rapidSession(t, true)
		plain.params.WideWindow = 0
		other := &session{t: t, params: plain.params, now: plain.now, shared: plain.shared}
		name := rapid.SampledFrom([]string{"A", "B", "C1", "C2"})
		for range rapid.IntRange(1, plain.params.HistorySize/2).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "canceled") {
				extra := call(name.Draw(t, "extra"), "")
				if _, r := toolloop.Check(other.state, extra, other.params, other.now); r.Level() < block { // what is stopped is not made
					other.check(extra)
					other.cancel(extra)
				}
			}
			c := call(name.Draw(t, "call"), "")
			want, got := plain.check(c), other.check(c)
			if rapid.Bool().Draw(t, "reported") {
				c.Result = hash(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "result"))
				want, got = plain.result(c), other.result(c)
			}
			if diff := cmp.Diff(want.Calls, got.Calls); diff != "" || want.Level() != got.Level() {
				t.Fatalf("%+v with canceled checks, want %+v (-want +got):\n%s", got.Detections, want.Detections, diff)
			}
			pace := time.Duration(rapid.IntRange(0, 60).Draw(t, "pace")) * time.Second
			plain.now, other.now = plain.now.Add(pace), other.now.Add(pace)
		}
	})
}
