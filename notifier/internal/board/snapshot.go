package board

import (
	"time"

	"github.com/unloop/unloop/schemas/silence"
)

// snapshot caches the sorted loops at a time, for several readers of one change. They must not
// be modified.
type snapshot struct {
	of      Versions
	at      time.Time
	made    bool
	loops   []Loop
	dropped bool
}

// maxStale is how old a snapshot may be if nothing changed, since loops end by themselves.
const maxStale = 500 * time.Millisecond

// loopsAt returns all loops at a time, which must not be modified, and whether records were
// dropped.
func (b *Board) loopsAt(now time.Time) (loops []Loop, dropped bool) {
	b.reading.Lock()
	defer b.reading.Unlock()
	versions, _ := b.Versions()
	s := &b.newest
	if age := now.Sub(s.at); s.made && s.of.sameLoops(versions) && age >= 0 && age < maxStale {
		return s.loops, s.dropped
	}
	*s = snapshot{of: versions, at: now, made: true}
	s.loops, s.dropped = b.readLoops(now)
	return s.loops, s.dropped
}

// sameLoops reports whether two versions have the same loops.
func (v Versions) sameLoops(w Versions) bool {
	return v[PartLoops] == w[PartLoops] && v[PartEvents] == w[PartEvents] && v[PartSilences] == w[PartSilences]
}

// readLoops merges the loops of records and events.
func (b *Board) readLoops(now time.Time) (loops []Loop, dropped bool) {
	open, dropped := b.Incidents.All()
	silences, _ := b.Silences.All()
	past := b.History.Loops()
	courses := make(map[string][]Point, len(past))
	for i := range past {
		courses[past[i].LoopID] = past[i].course
	}
	known := make(map[string]bool, len(open))
	loops = make([]Loop, 0, len(open)+len(past))
	for _, l := range open {
		if l.LoopID == "" || known[l.LoopID] || now.After(l.Ends.Add(afterEnd)) {
			continue
		}
		known[l.LoopID] = true
		l.SilencedUntil = silence.Until(silences, l.source, now)
		l.course = courses[l.LoopID]
		loops = append(loops, l)
	}
	for _, l := range past {
		if known[l.LoopID] {
			continue
		}
		if ends, still := b.Incidents.rest.open(l.LoopID, now); still {
			l.State, l.Ends, l.unkept = Open, ends, true
			loops = append(loops, l)
			continue
		}
		loops = append(loops, l.past(now))
	}
	sortLoops(loops)
	return loops, dropped
}
