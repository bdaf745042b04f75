package limit

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/hitid"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/storepb"
)

// maxStages bounds the stages of a budget.
const maxStages = 64

// maxNumber is the largest cost or limit that is taken; policies allow 1e15.
const maxNumber = 1e18

// FromWire reads the limits of a rule and refuses what no gateway sends.
func FromWire(l *checkpb.Limit) (Params, error) {
	var p Params
	switch {
	case len(l.GetKey()) != 32:
		return p, fmt.Errorf("limit key has %d bytes, want 32", len(l.GetKey()))
	case l.GetCost() < 0 || !sound(l.GetCost()):
		return p, fmt.Errorf("limit cost is %g", l.GetCost())
	case l.GetBreaker() != nil:
		return breakerFromWire(l)
	case l.GetBucket() == nil && l.GetBudget() == nil:
		return p, errors.New("limit has neither bucket, budget nor breaker")
	}
	if b := l.GetBucket(); b != nil {
		if !positive(b.GetRate()) || !positive(b.GetCapacity()) {
			return p, fmt.Errorf("bucket has rate %g and capacity %g", b.GetRate(), b.GetCapacity())
		}
		p.Bucket = &Bucket{Rate: b.GetRate(), Capacity: b.GetCapacity()}
	}
	if l.GetBudget() == nil {
		return p, nil
	}
	var err error
	p.Budget, err = budgetFromWire(l.GetBudget())
	return p, err
}

// breakerFromWire reads a breaker, which has no other limit beside it.
func breakerFromWire(l *checkpb.Limit) (Params, error) {
	b := l.GetBreaker()
	reset := time.Duration(b.GetResetSeconds()) * time.Second
	if !positive(b.GetThreshold()) || reset > maxTTL || l.GetBucket() != nil || l.GetBudget() != nil {
		return Params{}, fmt.Errorf("breaker has threshold %g and is reset after %s", b.GetThreshold(), reset)
	}
	return Params{Breaker: &Breaker{Threshold: b.GetThreshold(), Reset: reset}}, nil
}

func budgetFromWire(b *checkpb.Budget) (*Budget, error) {
	period := time.Duration(b.GetPeriodSeconds()) * time.Second
	if !positive(b.GetAmount()) || period <= 0 || period > maxTTL || len(b.GetStages()) > maxStages {
		return nil, fmt.Errorf("budget has amount %g, period %s and %d stages", b.GetAmount(), period, len(b.GetStages()))
	}
	offset := time.Duration(b.GetOffsetSeconds()) * time.Second
	if offset >= period {
		return nil, fmt.Errorf("budget has period %s and offset %s", period, offset)
	}
	out := &Budget{Amount: b.GetAmount(), Period: period, Offset: offset}
	for i, s := range b.GetStages() {
		share := s.GetPercent() / 100
		if share < 0 || !sound(share) || i > 0 && share <= out.Stages[i-1].Share {
			return nil, errors.New("stages must rise")
		}
		if s.GetAction() < checkpb.Action_ACTION_WARN || s.GetAction() > checkpb.Action_ACTION_REJECT {
			return nil, fmt.Errorf("stage action %d is unknown", s.GetAction())
		}
		out.Stages = append(out.Stages, Stage{Share: share, Action: s.GetAction(), Delay: time.Duration(s.GetDelayMs()) * time.Millisecond})
	}
	return out, nil
}

func positive(f float64) bool { return f > 0 && sound(f) }

func sound(f float64) bool { return finite(f) && f <= maxNumber }

// CheckDelta refuses a correction that no gateway sends.
func CheckDelta(delta float64) error {
	if !sound(delta) || !sound(-delta) {
		return fmt.Errorf("correction is %g", delta)
	}
	return nil
}

// Wire returns the verdict as it is sent.
func (v Verdict) Wire() *checkpb.LimitVerdict {
	return &checkpb.LimitVerdict{
		Action: v.Action, Limit: v.Limit, Remaining: v.Remaining,
		ResetMs: uint64(v.Reset.Milliseconds()), RetryAfterMs: uint64(v.RetryAfter.Milliseconds()),
		DelayMs: uint32(v.Delay.Milliseconds()), WindowSeconds: uint32(v.Window / time.Second),
		Taken: v.Action != checkpb.Action_ACTION_REJECT, Exceeded: v.Exceeded,
	}
}

// Parse reads what Append wrote.
func (s *State) Parse(stored []byte) error {
	var m storepb.Limit
	err := proto.Unmarshal(stored, &m)
	*s = State{
		At: m.GetAt(), Level: m.GetLevel(), Period: m.GetPeriod(), Spent: m.GetSpent(), IDs: hitid.IDs(m.GetIds()),
		Minute: m.GetMinute(), Current: m.GetCurrent(), Previous: m.GetPrevious(), Opened: m.GetOpened(),
	}
	for _, a := range m.GetAsked() {
		s.Asked = append(s.Asked, Asked{a.GetMark(), a.GetCost(), a.GetAt()})
	}
	return err
}

// minSize is the size in bytes to which the records of budgets and breakers are padded. A
// compact record is smaller, so that it can be stored again in a bucket that has no room for
// larger ones.
const minSize = 128

// Append writes the state as a storepb.Limit.
func (s State) Append(b []byte) []byte {
	m := &storepb.Limit{
		At: s.At, Level: s.Level, Period: s.Period, Spent: s.Spent, Ids: string(s.IDs),
		Minute: s.Minute, Current: s.Current, Previous: s.Previous, Opened: s.Opened,
	}
	for _, a := range s.Asked {
		m.Asked = append(m.Asked, &storepb.LimitAsked{Mark: a.Mark, Cost: a.Cost, At: a.At})
	}
	const tag = 2 // of the field fill and its length, in bytes
	if lasts := s.Period != 0 || s.Minute != 0; lasts && !s.Compact {
		if missing := minSize - proto.Size(m); missing > 0 {
			m.Fill = make([]byte, max(missing-tag, 1))
		}
	}
	return storepb.Append(b, m)
}

// Fit returns the state for a bucket that may be full. In a full one, the state keeps only the
// newest id and the newest check, so that its record does not grow.
func (s State) Fit(full bool) State {
	if s.Compact = full; full {
		s.IDs, s.Asked = s.IDs.Newest(1), s.Asked[max(0, len(s.Asked)-1):]
	}
	return s
}
