// Package counter is the pure core of the exact detectors: it takes a counter's state,
// its parameters, a hit and a time, and returns the new state and a verdict.
//
// It does not know NATS, HTTP or what the fingerprints stand for, and it reads no clock.
package counter

import (
	"slices"
	"time"

	"github.com/unloop/unloop/detector/internal/hitid"
	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	// delayStep and maxDelay are the throttle of Fairvisor's loop detector:
	// the count times 100 ms, 30 s at most.
	delayStep = 100 * time.Millisecond
	maxDelay  = 30 * time.Second

	// maxForgiven is how many retries and replays a counted hit may have that
	// do not count themselves. More would let a forged header hide a loop.
	maxForgiven = 2

	// maxSkew is how far a record's times may be ahead of the clock: the clocks of processes
	// differ, and the server's clock is corrected. Time stands still for such a record until
	// the clock catches up. Times that are further ahead are moved back, so that a record
	// neither lasts longer nor loses a block. A record that is ahead by more than maxAhead is
	// corrupt and is reset.
	maxSkew  = time.Minute
	maxAhead = 24 * time.Hour

	// MaxThreshold bounds how many hit times a record holds (8 bytes each in
	// memory, 14 in the bucket).
	MaxThreshold = 10_000
)

// Params are the parameters of a counter.
type Params struct {
	Window checkpb.Window
	// Length of the window; positive.
	Length   time.Duration
	Cooldown time.Duration
	// Steps are the actions by count, rising; at least one, the last one at
	// MaxThreshold or below.
	Steps []Level
}

// Level is an action that holds from a count on.
type Level struct {
	At     int
	Action checkpb.Action
}

// limit returns the lowest count that fires.
func (p Params) limit() int { return p.Steps[0].At }

// depth returns the count of the last step, after which no action changes.
func (p Params) depth() int { return p.Steps[len(p.Steps)-1].At }

// action returns the action at a count. A standing block holds even if the window has
// forgotten its hits.
func (p Params) action(count int, blocked bool) checkpb.Action {
	var a checkpb.Action
	for _, step := range p.Steps {
		if count >= step.At || blocked && step.Action.Stops() && !a.Stops() {
			a = step.Action
		}
	}
	return a
}

// State is the record of one counter. Times are Unix milliseconds. The zero value is a
// counter without hits.
type State struct {
	Count int
	First int64
	Last  int64
	// Hits are the newest hit times of a sliding window, oldest first, as many as are
	// needed to fire.
	Hits []int64
	// BlockedUntil is the end of the cooldown.
	BlockedUntil int64
	// Forgiven counts retries since the last counted hit that did not count.
	Forgiven int
	// Excused says that the last call got no answer, so that its replay is a retry even
	// if the client does not mark it as one.
	Excused bool
	// Aborted counts calls that were excused because the client left while the
	// answer came. Only maxForgiven of them are, for as long as the state lasts.
	Aborted int
	// Key is the hash of the last counted hit's idempotency key, see hitid.Mark.
	Key string
	// Incident is the conversation under which this counter's findings are
	// reported, from its first finding on.
	Incident string
	// IDs are those of the newest counted hits.
	IDs hitid.IDs
	// Messages is the length of the history that the last counted hit came with; 0 if
	// that is not known.
	Messages int
	// Before is the number of hits before the agent restarted that still count.
	Before int
	// Asked are the hashes of the ids of checked requests that may follow, oldest first; see
	// Hit.Asked.
	Asked []string
	// Rounds is the highest number of identical rounds that a request showed.
	Rounds int
	// Parts are the counts of a record that has several; see StepPart. The fields
	// above are then those of the parts.
	Parts []Part
	// Slow are the newest hit times of the long window, of all parts.
	Slow []int64
	// Turns are the marks of the parts that were hit last, oldest first.
	Turns []string
	// Usual is the last time at which the prompt would have fired but was its caller's usual
	// workload; 0 for never.
	Usual int64
}

// Hit is a request, or several equal ones at once.
type Hit struct {
	// N identical requests at once; less than 1 means 1.
	N int
	// Retry marks a request that the client calls its own retry.
	Retry bool
	// Key is the client's idempotency key, if it sent one.
	Key string
	// Incident is the conversation that a first finding is reported under.
	Incident string
	// ID names the hit, so that it counts once; "" for one that is sent once.
	ID string
	// Request is the id of the request, if it has one.
	Request string
	// Asked says that only the decision was asked for. The request may follow under the same
	// id, and then does not count again.
	Asked bool
	// Rounds is how many identical rounds the request's own history ends with.
	Rounds int
	// Sample says that another request of the same round counts in its place.
	Sample bool
	// Messages is the length of the request's history; 0 if it does not show all.
	Messages int
}

// Verdict is the result of a hit.
type Verdict struct {
	// Count of hits, this one included.
	Count int
	// Fired says that the count is a loop.
	Fired bool
	// Began says that a cooldown began with this hit.
	Began bool
	// Action to take; ALLOW unless fired.
	Action checkpb.Action
	// Blocked is what is left of the cooldown.
	Blocked time.Duration
	// Delay of a throttle.
	Delay time.Duration
	// Incident as kept in the state.
	Incident string
	// Known says that the hit, or the check of its request, was counted before.
	Known bool
	// Counted says that the hit was added to the count.
	Counted bool
	// RetryAfter is the time until the next equal request passes if nothing else is
	// sent; 0 if it passes now, or never.
	RetryAfter time.Duration
	// Ages are those of the newest hits of a sliding window, newest first, as many
	// as decide when the request passes, at most maxAges.
	Ages []time.Duration
	// Since is the age of the first hit.
	Since time.Duration
}

// Step counts a hit at a time.
func Step(s State, p Params, h Hit, now time.Time) (State, Verdict) {
	s, at := s.sane(p, now)
	s = expire(s, p, at)
	if s.IDs.Has(h.ID) {
		s, v := evaluate(s, p, h, at, false)
		v.Known = true
		return s, v
	}
	if claimed, known := s.claim(h); known {
		s, v := evaluate(claimed, p, h, at, false)
		v.Known = true
		return s, v
	}
	if h.Sample {
		return evaluate(s, p, h, at, false)
	}
	began, forgiven := false, s.forgive(h)
	s.IDs = s.IDs.With(h.ID)
	if forgiven {
		s.Forgiven++
		s.Excused = false
	} else {
		s = count(s.follow(h), p, max(h.N, 1), at)
		s.Key = ""
		if h.Key != "" {
			s.Key = hitid.Mark(h.Key)
		}
		began = s.action(p, false).Stops() && p.Cooldown > 0 && s.BlockedUntil <= at
	}
	if began {
		s.BlockedUntil = at + p.Cooldown.Milliseconds()
	}
	s, v := evaluate(s.expect(h), p, h, at, began)
	v.Counted = !forgiven
	return s, v
}

// look evaluates a counter without a hit.
func look(s State, p Params, h Hit, now time.Time) (State, Verdict) {
	s, at := s.sane(p, now)
	return evaluate(expire(s, p, at), p, h, at, false)
}

// sane repairs a state whose times are wrong, so that it expires, and returns the time to
// evaluate it at.
func (s State) sane(p Params, now time.Time) (State, int64) {
	if s.broken() {
		s = State{}
	}
	at := now.UnixMilli()
	switch ahead := s.Last - at; {
	case ahead > maxAhead.Milliseconds():
		s = State{}
	case ahead > maxSkew.Milliseconds():
		s = s.moved(-ahead)
	default:
		at = max(at, s.Last)
	}
	s.BlockedUntil = min(s.BlockedUntil, at+p.Cooldown.Milliseconds())
	return s, at
}

// moved returns the state with its times shifted by milliseconds.
func (s State) moved(by int64) State {
	s.First, s.Last, s.BlockedUntil, s.Usual = s.First+by, s.Last+by, max(s.BlockedUntil+by, 0), max(s.Usual+by, 0)
	s.Hits, s.Slow, s.Parts = slices.Clone(s.Hits), slices.Clone(s.Slow), slices.Clone(s.Parts)
	for _, times := range [][]int64{s.Hits, s.Slow} {
		for i := range times {
			times[i] += by
		}
	}
	for i := range s.Parts {
		s.Parts[i].State = s.Parts[i].State.moved(by)
	}
	return s
}

// broken reports whether no detector can have written the state.
func (s State) broken() bool {
	if s.Count < 0 || s.Count > maxCount || len(s.Hits) > 2*MaxThreshold || len(s.Asked) > maxAsked {
		return true
	}
	n := len(s.Hits)
	return n > 0 && (s.Hits[n-1] > s.Last || !slices.IsSorted(s.Hits))
}

// Excuse records that the counted call got no answer, so that its replay does not count.
// Aborted says that the client left while the answer came, which is excused maxForgiven times.
func Excuse(s State, aborted bool) State {
	if s.Count == 0 || aborted && s.Aborted >= maxForgiven {
		return s
	}
	s.Excused = true
	if aborted {
		s.Aborted++
	}
	return s
}

// forgive reports whether a hit is a retry of a counted one and does not count.
func (s State) forgive(h Hit) bool {
	return s.Count > 0 && s.Forgiven < maxForgiven && h.N <= 1 && (h.Retry || s.Excused || h.Key != "" && hitid.Mark(h.Key) == s.Key)
}

// evaluate returns the verdict on a state at a time.
func evaluate(s State, p Params, h Hit, at int64, began bool) (State, Verdict) {
	v := Verdict{Count: s.Count, Began: began}
	if left := s.BlockedUntil - at; left > 0 {
		v.Blocked = time.Duration(left) * time.Millisecond
	}
	v.Fired, v.RetryAfter = s.Count >= p.limit() || v.Blocked > 0, s.passes(p, at)
	if !v.Fired {
		return s, v
	}
	if s.Incident == "" {
		s.Incident = h.Incident
	}
	v.Incident, v.Action = s.Incident, s.action(p, v.Blocked > 0)
	v.Since = time.Duration(at-s.First) * time.Millisecond
	v.Ages = s.ages(p, at)
	if v.Action == checkpb.Action_ACTION_THROTTLE {
		v.Delay = min(time.Duration(s.Count)*delayStep, maxDelay)
	}
	return s, v
}

// expire removes the hits that the window no longer covers.
func expire(s State, p Params, at int64) State {
	length := p.Length.Milliseconds()
	var over bool
	switch p.Window {
	case checkpb.Window_WINDOW_FIXED:
		over = at-s.First >= length
	case checkpb.Window_WINDOW_SLIDING:
		s = slide(s, p, at-length)
		over = len(s.Hits) == 0
	default:
		over = at-s.Last >= length
	}
	switch {
	case !over:
		return s
	case s.BlockedUntil > at:
		return State{Last: s.Last, BlockedUntil: s.BlockedUntil, Incident: s.Incident}
	default:
		return State{Last: s.Last}
	}
}

// slide drops hit times up to and including edge. The count is exact until it
// fires; from then on it grows with each hit for as long as enough of them stay
// within the window.
func slide(s State, p Params, edge int64) State {
	kept := s.Hits
	for len(kept) > 0 && kept[0] <= edge {
		kept = kept[1:]
	}
	s.Before = max(s.Before-(len(s.Hits)-len(kept)), 0)
	if len(kept) < p.depth() {
		s.Count = len(kept)
	}
	s.Hits = kept
	return s
}

func count(s State, p Params, n int, at int64) State {
	if s.Count == 0 {
		s.First = at
	}
	s.Count = min(s.Count+n, maxCount)
	s.Last, s.Forgiven, s.Excused = at, 0, false
	if p.Window == checkpb.Window_WINDOW_SLIDING {
		hits := append(make([]int64, 0, len(s.Hits)+min(n, p.depth())), s.Hits...)
		for range min(n, p.depth()) {
			hits = append(hits, at)
		}
		s.Hits = hits[max(0, len(hits)-p.depth()):]
	}
	return s
}

// maxCount keeps a hostile number of hits from overflowing.
const maxCount = 1 << 30

// TTL returns how long a state can still matter, in whole seconds and at least one, as
// JetStream takes it.
func (s State) TTL(p Params, now time.Time) time.Duration {
	at := max(now.UnixMilli(), s.Last)
	end := at + p.Length.Milliseconds()
	if p.Window == checkpb.Window_WINDOW_FIXED {
		end = s.First + p.Length.Milliseconds()
	}
	end = max(end, s.BlockedUntil)
	left := time.Duration(end-at) * time.Millisecond
	return max(left.Truncate(time.Second)+time.Second, time.Second)
}
