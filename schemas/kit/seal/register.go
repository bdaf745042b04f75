package seal

import (
	"bytes"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// maxFaults is the largest number of faulty records that a Register remembers, because
// users without the seed may still write many.
const maxFaults = 100

// Register has the records of a bucket that are in force: of each key the newest good one.
// A record that is not good replaces none. Nor does a deletion, where records need a seal:
// it has none.
//
// The zero Register with a Bucket takes every record. It is not safe for concurrent use.
type Register struct {
	Trust  Trust
	Bucket string
	// Check returns what is wrong with a content; nil for no check.
	Check func(key string, content []byte) error
	// Lasts returns when a content is over. An earlier record of its key can't come back
	// until then. Nil is for contents that are never over.
	Lasts func(content []byte) time.Time
	// Now is the clock for the end of contents; nil is the machine's.
	Now func() time.Time

	good   map[string]good
	faults map[string]error
}

// good is the newest good record of a key.
type good struct {
	content []byte
	at      time.Time
	// until is when the last of the key's good records is over.
	until time.Time
}

// Take takes over entries, oldest first. all says that they are all that is stored. It
// returns the keys whose content has changed.
func (r *Register) Take(entries []jetstream.KeyValueEntry, all bool) (changed []string) {
	if r.good == nil {
		r.good, r.faults = map[string]good{}, map[string]error{}
	}
	before := map[string][]byte{}
	note := func(key string) {
		if _, noted := before[key]; !noted {
			before[key], _ = r.Content(key)
		}
	}
	if all {
		r.absent(entries, note)
	}
	took := all
	for _, entry := range entries {
		note(entry.Key())
		took = r.take(entry) || took
	}
	if took {
		r.prune(note)
	}
	for key, old := range before {
		if now, _ := r.Content(key); !bytes.Equal(now, old) {
			changed = append(changed, key)
		}
	}
	return changed
}

// absent forgets deleted records, unless records need a seal: then they stay in force.
func (r *Register) absent(stored []jetstream.KeyValueEntry, note func(key string)) {
	clear(r.faults)
	if r.Trust.Checks() {
		return
	}
	there := map[string]bool{}
	for _, entry := range stored {
		there[entry.Key()] = true
	}
	for key := range r.good {
		if !there[key] {
			note(key)
			delete(r.good, key)
		}
	}
}

// take takes over one entry, and reports whether it was good.
func (r *Register) take(entry jetstream.KeyValueEntry) bool {
	key := entry.Key()
	record, err := r.open(entry)
	if err != nil {
		if _, known := r.faults[key]; known || len(r.faults) < maxFaults {
			r.faults[key] = err
		}
		return false
	}
	delete(r.faults, key)
	now := good{content: record.Content, at: record.At, until: r.good[key].until}
	if r.Lasts != nil && len(record.Content) > 0 {
		if until := r.Lasts(record.Content); until.After(now.until) {
			now.until = until
		}
	}
	r.good[key] = now
	return true
}

// open returns the record of an entry, or why it is not good.
func (r *Register) open(entry jetstream.KeyValueEntry) (Record, error) {
	if entry.Operation() != jetstream.KeyValuePut {
		if r.Trust.Checks() {
			return Record{}, ErrUnsealed
		}
		return Record{}, nil
	}
	record, err := r.Trust.Open(r.Bucket, entry.Key(), entry.Value())
	switch {
	case err == nil && r.Trust.Checks() && record.At.Before(r.good[entry.Key()].at):
		err = ErrOlder
	case err == nil && r.Check != nil && len(record.Content) > 0:
		err = r.Check(entry.Key(), record.Content)
	}
	return record, err
}

// prune forgets expired records.
func (r *Register) prune(note func(key string)) {
	now := time.Now()
	if r.Now != nil {
		now = r.Now()
	}
	for key, g := range r.good {
		if !g.until.IsZero() && g.until.Before(now) || len(g.content) == 0 && !r.Trust.Checks() {
			note(key)
			delete(r.good, key)
		}
	}
}

// Content returns the content in force under a key; false if there is none. An operator who
// removes a record leaves an empty one, which is none.
func (r *Register) Content(key string) ([]byte, bool) {
	g := r.good[key]
	return g.content, len(g.content) > 0
}

// At returns the time of the seal of the content in force under a key; zero without one.
func (r *Register) At(key string) time.Time { return r.good[key].at }

// Faults returns, by key, why the record that is stored is not in force. It is only read.
func (r *Register) Faults() map[string]error { return r.faults }
