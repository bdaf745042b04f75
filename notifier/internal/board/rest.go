package board

import (
	"sync"
	"time"
)

// Incidents are the records of open loops: the newest ones in full, and of the others only id
// and end.
type Incidents struct {
	*Records[Loop]
	rest    rest
	history *History
}

// rest has the open loops whose records were dropped. The bucket's size bounds their number.
type rest struct {
	mu    sync.Mutex
	byKey map[string]string // the loops' ids
	ends  map[string]time.Time
}

func newIncidents(history *History, changed func()) *Incidents {
	in := &Incidents{Records: newRecords[Loop](maxIncidents, changed), history: history}
	in.rest.clear()
	in.removed = func(gone Loop) { history.Keep(gone, true) }
	in.evicted = func(key string, l Loop) {
		in.rest.put(key, l.LoopID, l.Ends)
		history.Keep(l, false)
	}
	return in
}

// Put sets the record of a key.
func (in *Incidents) Put(key string, value []byte) {
	in.rest.remove(key)
	in.Records.Put(key, value)
}

// Delete removes a key.
func (in *Incidents) Delete(key string) {
	in.rest.remove(key)
	in.Records.Delete(key)
}

// Replace sets all records, in the order in which they were written.
func (in *Incidents) Replace(all []Entry) {
	in.rest.clear()
	in.Records.Replace(all)
}

// Release removes the record of a released loop. If the record was removed before it was
// read, the loop is known only from its event.
func (in *Incidents) Release(loopID string) {
	in.rest.forget(loopID)
	in.history.End(loopID)
	in.DeleteFunc(func(one Loop) bool { return one.LoopID == loopID })
}

func (r *rest) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byKey, r.ends = map[string]string{}, map[string]time.Time{}
}

func (r *rest) put(key, loopID string, ends time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byKey[key], r.ends[loopID] = loopID, ends
}

func (r *rest) remove(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ends, r.byKey[key])
	delete(r.byKey, key)
}

func (r *rest) forget(loopID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ends, loopID)
}

// open returns the end of an open loop whose record was dropped.
func (r *rest) open(loopID string, now time.Time) (ends time.Time, open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ends, open = r.ends[loopID]
	return ends, open && !now.After(ends.Add(afterEnd))
}

// count returns the number of open loops.
func (r *rest) count(now time.Time) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ends := range r.ends {
		if !now.After(ends.Add(afterEnd)) {
			n++
		}
	}
	return n
}
