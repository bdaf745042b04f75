package board

import (
	"slices"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/silence"
)

// Part is a part of the board that has a version of its own.
type Part int

// The parts.
const (
	PartLoops Part = iota
	PartEvents
	PartSilences
	PartOverrides
	PartPolicies
	PartDeliveries
	parts
)

// String returns the part's name as the API shows it.
func (p Part) String() string {
	return [parts]string{"loops", "events", "silences", "overrides", "policies", "deliveries"}[p]
}

// Parts returns all parts.
func Parts() []Part {
	all := make([]Part, parts)
	for p := range parts {
		all[p] = p
	}
	return all
}

const (
	maxIncidents = 10_000
	maxSilences  = 500
	maxOverrides = 500
	// maxDeliveries bounds the kept entries of the delivery log.
	maxDeliveries = 500
	// afterEnd is how long after its end a loop with a record still counts as open.
	afterEnd = 3 * time.Second
	// unrecorded is how long after its event a loop without a record counts as open.
	unrecorded = 5 * time.Second
)

// Board is the read model. Make it with New.
type Board struct {
	Incidents *Incidents
	Silences  *Records[silence.Silence]
	Overrides *Records[schemas.Override]
	// Deliveries holds the newest entries of the delivery log.
	Deliveries *Records[delivery.Record]
	History    *History
	Bundle     Pushed

	mu       sync.Mutex
	versions Versions
	news     chan struct{}

	reading sync.Mutex
	newest  snapshot
}

// Versions counts the changes of each part.
type Versions [parts]uint64

// New returns an empty board.
func New() *Board {
	b := &Board{news: make(chan struct{})}
	b.Silences = newRecords[silence.Silence](maxSilences, func() { b.note(PartSilences) })
	b.Overrides = newRecords[schemas.Override](maxOverrides, func() { b.note(PartOverrides) })
	b.Deliveries = newRecords[delivery.Record](maxDeliveries, func() { b.note(PartDeliveries) })
	b.History = newHistory(func() { b.note(PartEvents) })
	b.Incidents = newIncidents(b.History, func() { b.note(PartLoops) })
	b.Bundle.changed = func() { b.note(PartPolicies) }
	return b
}

func (b *Board) note(p Part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.versions[p]++
	close(b.news)
	b.news = make(chan struct{})
}

// Versions returns the present versions, and a channel that is closed with the next
// change.
func (b *Board) Versions() (Versions, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.versions, b.news
}

// Changed returns the parts whose versions differ from earlier ones.
func (v Versions) Changed(since Versions) []Part {
	var changed []Part
	for p := range parts {
		if v[p] != since[p] {
			changed = append(changed, p)
		}
	}
	return changed
}

// Loops returns the loops that a filter selects, in its order, and whether open ones may be
// missing because there are too many.
func (b *Board) Loops(f Filter, now time.Time) (loops []Loop, omitted bool) {
	all, dropped := b.loopsAt(now)
	loops = []Loop{}
	for i := range all {
		if f.takes(&all[i]) {
			loops = append(loops, all[i])
		}
	}
	f.sort(loops)
	return loops, dropped && b.Incidents.rest.count(now) > 0
}

// OpenLoops returns how many loops are open, whether or not their records are kept.
func (b *Board) OpenLoops(now time.Time) int {
	loops, _ := b.loopsAt(now)
	n := b.Incidents.rest.count(now)
	for i := range loops {
		if loops[i].State == Open && !loops[i].unkept {
			n++
		}
	}
	return n
}

// past returns a loop without a record as it is at a time.
func (l Loop) past(now time.Time) Loop {
	switch {
	case l.State == Resolved:
	case !l.gone && now.Before(l.Ends) && now.Sub(l.at) < unrecorded: // its record is on its way
	default:
		l.State = Resolved
		if now.Before(l.Ends) { // nobody announced its end
			l.Ends = l.LastSeen
		}
	}
	return l
}

// Loop returns the loop with an id.
func (b *Board) Loop(id string, now time.Time) (Loop, bool) {
	loops, _ := b.loopsAt(now)
	i := slices.IndexFunc(loops, func(l Loop) bool { return l.LoopID == id })
	if i < 0 {
		return Loop{}, false
	}
	return loops[i], true
}
