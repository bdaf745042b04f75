// Package limit is the pure core of rules: it takes the state of a rule, its limits, a
// request's cost and a time, and returns the new state and a verdict.
//
// It does not know NATS, HTTP or what the cost stands for, and it reads no clock.
package limit

import (
	"math"
	"time"

	"github.com/unloop/unloop/detector/internal/hitid"
	"github.com/unloop/unloop/schemas/checkpb"
)

// Params are a rule's limits. A request must find room in the bucket and in the
// budget, where they are set. A breaker stands alone.
type Params struct {
	Bucket  *Bucket
	Budget  *Budget
	Breaker *Breaker
}

// Bucket refills continuously up to its capacity.
type Bucket struct {
	// Rate in units a second, positive.
	Rate float64
	// Capacity in units, positive.
	Capacity float64
}

// Budget is what may be spent in a period, which begins at multiples of its
// length since the Unix epoch and an offset: days at midnight UTC, and weeks with
// an offset of four days on Mondays.
type Budget struct {
	Amount float64
	Period time.Duration
	Offset time.Duration
	// Stages rise by share; one rejects.
	Stages []Stage
}

// Stage is the action from a share of the budget on. A request that reaches the share of
// a reject exactly passes: the whole budget can be spent.
type Stage struct {
	// Share of the budget, 0 to 1.
	Share  float64
	Action checkpb.Action
	Delay  time.Duration
}

// State is the record of a rule for one combination of descriptor values. The zero
// value is a rule that was never used: a full bucket and an unspent budget.
type State struct {
	// At is the time of Level, or of a breaker's last change, in Unix milliseconds; 0
	// for a full bucket.
	At int64
	// Level of the bucket. Corrections can bring it below zero.
	Level float64
	// Period is when the budget's period began, in Unix milliseconds.
	Period int64
	Spent  float64
	// IDs are those of the newest requests that were taken.
	IDs hitid.IDs
	// Asked are the checks whose requests may follow, oldest first.
	Asked []Asked
	// Minute is the calendar minute of Current, in Unix milliseconds; Previous is
	// the spend of the one before. Opened is when the breaker opened, 0 while it is
	// closed.
	Minute   int64
	Current  float64
	Previous float64
	Opened   int64
	// Compact says that the record is stored as small as it can be.
	Compact bool
}

// IsZero reports whether the state is that of a rule that was never used.
func (s State) IsZero() bool { return s.At == 0 && s.Period == 0 && s.Minute == 0 && s.IDs == "" }

// Verdict is the result of a rule for a request.
type Verdict struct {
	// Action is ALLOW within the limit; REJECT takes nothing.
	Action checkpb.Action
	// Limit and Remaining are those of the bucket or the budget, whichever has
	// less left in proportion.
	Limit, Remaining float64
	// Reset is the time until that one is full or unspent again.
	Reset time.Duration
	// RetryAfter is the time after which a rejected request passes; 0 if never.
	RetryAfter time.Duration
	// Delay of a throttle.
	Delay time.Duration
	// Window is the length of the period, or how long the bucket takes to fill.
	Window time.Duration
	// Exceeded is the part of the limit that rejects.
	Exceeded checkpb.Exceeded
	// Opened and Closed say that the breaker did so with this request, Fresh that it has
	// no record.
	Opened, Closed, Fresh bool
}

// slack is the tolerance for rounding, as a proportion: a bucket that refills one unit
// in ten steps must hold that unit.
const slack = 1e-9

// Step takes a request's cost, or rejects it and takes nothing.
func Step(s State, p Params, cost float64, now time.Time) (State, Verdict) {
	return Take(s, p, Request{Cost: cost}, now)
}

// Take is Step for a request that may have been checked before. The cost that its check
// took is not taken again, and a request that costs no more passes, as its check said.
func Take(s State, p Params, r Request, now time.Time) (State, Verdict) {
	at := now.UnixMilli()
	s = s.refresh(p, at)
	cost, claimed := charged(r.Cost), false
	var before Asked
	if !r.Asked {
		if s, before, claimed = s.claim(r.ID); claimed {
			cost = before.rest(r.Cost, s, p)
		}
	}
	if s.IDs.Has(r.Hit) { // it was taken, and its answer lost
		cost, claimed = charge{}, true
	}
	if p.Breaker != nil {
		s.IDs = s.IDs.With(r.Hit)
		s, v := s.stepBreaker(*p.Breaker, cost.bucket, at)
		return s.expect(r, at), v
	}
	v := evaluate(s, p, cost, at)
	if v.Action == checkpb.Action_ACTION_REJECT && claimed && cost.bucket <= 0 && cost.budget <= 0 {
		v = Verdict{}
	}
	switch {
	case v.Action != checkpb.Action_ACTION_REJECT:
		s = s.take(p, cost).expect(r, at)
		s.IDs = s.IDs.With(r.Hit)
	case claimed:
		s = Correct(s, p, -before.Cost, time.UnixMilli(before.At), now)
	}
	v.describe(s, p, at)
	return s, v
}

// Drain takes a cost as far as there is room, for requests that a gateway answered from
// memory.
func Drain(s State, p Params, cost float64, now time.Time) State {
	s = s.refresh(p, now.UnixMilli())
	if p.Breaker != nil {
		return s // answers from memory cost the breaker nothing
	}
	if p.Bucket != nil {
		s.Level -= min(cost, max(s.Level, 0))
	}
	if p.Budget != nil {
		s.Spent += min(cost, max(p.Budget.Amount-s.Spent, 0))
	}
	return s
}

// Correct takes the difference between the real cost and the estimate at a time before,
// or gives it back. A debt never exceeds the bucket's capacity. A budget stays as it is
// if its period has ended since.
func Correct(s State, p Params, delta float64, taken, now time.Time) State {
	at := now.UnixMilli()
	s = s.refresh(p, at)
	if p.Breaker != nil {
		return s.correctBreaker(delta, taken.UnixMilli(), at)
	}
	if b := p.Bucket; b != nil {
		s.Level = min(max(s.Level-delta, -b.Capacity), b.Capacity)
	}
	if b := p.Budget; b != nil && b.start(taken.UnixMilli()) == s.Period {
		s.Spent = max(s.Spent+delta, 0)
	}
	return s
}

// refresh returns the state as of a time.
func (s State) refresh(p Params, at int64) State {
	if b := p.Bucket; b != nil {
		s = s.refill(b, at)
	}
	if b := p.Budget; b != nil {
		s = s.turn(b.start(at), at)
	}
	return s
}

// maxSkew is how far a record's times may be ahead of the clock: the clocks of processes
// differ, and the server's clock is corrected. Time stands still for such a record until the
// clock catches up. A bucket or a period that is further ahead is reset, so that it does not
// last until then.
const maxSkew = time.Minute

// refill returns the state with the bucket as of a time.
func (s State) refill(b *Bucket, at int64) State {
	if s.At == 0 || s.At > at+maxSkew.Milliseconds() || !finite(s.Level) {
		s.Level, s.At = b.Capacity, at
	}
	elapsed := max(at-s.At, 0)
	s.Level = min(s.Level+float64(elapsed)/1000*b.Rate, b.Capacity)
	s.At += elapsed
	return s
}

// turn returns the state with the budget of the period that begins at start.
func (s State) turn(start, at int64) State {
	if !finite(s.Spent) {
		s.Spent = 0
	}
	if start > s.Period || s.Period > at+maxSkew.Milliseconds() {
		s.Period, s.Spent = start, 0
	}
	return s
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

func (b *Budget) start(at int64) int64 {
	return at - (at-b.Offset.Milliseconds())%b.Period.Milliseconds()
}

func (s State) take(p Params, cost charge) State {
	if p.Bucket != nil {
		s.Level = min(s.Level-cost.bucket, p.Bucket.Capacity)
	}
	if p.Budget != nil {
		s.Spent = max(s.Spent+cost.budget, 0)
	}
	return s
}

// evaluate returns the verdict on a cost. A rejected request has to wait until both the
// bucket and the budget have room.
func evaluate(s State, p Params, cost charge, at int64) Verdict {
	var v Verdict
	possible := true
	if b := p.Budget; b != nil {
		stage := b.stageAt(s.Spent + cost.budget)
		v.Action, v.Delay = stage.Action, stage.Delay
		if v.Action == checkpb.Action_ACTION_REJECT {
			v.RetryAfter = milliseconds(s.Period + b.Period.Milliseconds() - at)
			v.Exceeded = checkpb.Exceeded_EXCEEDED_BUDGET
			possible = b.stageAt(cost.budget).Action != checkpb.Action_ACTION_REJECT
		}
	}
	if b := p.Bucket; b != nil && cost.bucket > s.Level+slack*b.Capacity {
		v.Action, v.Exceeded = checkpb.Action_ACTION_REJECT, checkpb.Exceeded_EXCEEDED_BUCKET
		wait := time.Duration(math.Ceil((cost.bucket-s.Level)/b.Rate*1000)) * time.Millisecond
		v.RetryAfter = max(v.RetryAfter, wait)
		possible = possible && cost.bucket <= b.Capacity*(1+slack)
	}
	if !possible {
		v.RetryAfter = 0
	}
	return v
}

// stageAt returns the last stage that a spend has reached.
func (b *Budget) stageAt(spent float64) Stage {
	var reached Stage
	for _, stage := range b.Stages {
		edge := stage.Share * b.Amount
		if spent < edge-slack*b.Amount || stage.Action == checkpb.Action_ACTION_REJECT && spent <= edge+slack*b.Amount {
			break
		}
		reached = stage
	}
	return reached
}

// describe fills in the numbers of the bucket or the budget, whichever has less left.
func (v *Verdict) describe(s State, p Params, at int64) {
	scarce := math.Inf(1)
	if b := p.Bucket; b != nil {
		scarce = s.Level / b.Capacity
		v.Limit, v.Remaining = b.Capacity, max(s.Level, 0)
		v.Reset = seconds((b.Capacity - s.Level) / b.Rate)
		v.Window = seconds(b.Capacity / b.Rate)
	}
	if b := p.Budget; b != nil && 1-s.Spent/b.Amount < scarce {
		v.Limit, v.Remaining = b.Amount, max(b.Amount-s.Spent, 0)
		v.Reset, v.Window = milliseconds(s.Period+b.Period.Milliseconds()-at), b.Period
	}
}

func milliseconds(ms int64) time.Duration { return time.Duration(max(ms, 0)) * time.Millisecond }

// seconds returns a duration of at most a hundred years.
func seconds(s float64) time.Duration {
	const longest = 100 * 365 * 24 * 60 * 60
	return time.Duration(min(max(s, 0), longest) * float64(time.Second))
}

// maxTTL is longer than any period. A bucket that takes longer to fill is forgotten
// earlier.
const maxTTL = 366 * 24 * time.Hour

// TTL returns how long a state can still matter, in whole seconds and at least one:
// until the bucket is full and the period has ended.
func (s State) TTL(p Params, now time.Time) time.Duration {
	var left time.Duration
	if b := p.Bucket; b != nil {
		left = seconds((b.Capacity - s.Level) / b.Rate)
	}
	if b := p.Budget; b != nil {
		left = max(left, milliseconds(s.Period+b.Period.Milliseconds()-now.UnixMilli()))
	}
	if b := p.Breaker; b != nil {
		left = s.breakerTTL(*b)
	}
	left = max(left, s.askedLeft(now.UnixMilli()))
	return min(left.Truncate(time.Second)+time.Second, maxTTL)
}
