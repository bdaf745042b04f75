package seal

import (
	"bytes"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// maxFaults bounds the faults that a Register remembers: users without the seed may write any
// number of records.
const maxFaults = 100

// Register has the records of a bucket that are in force: the newest good one of each key. A
// bad record replaces none; nor does a deletion, which has no seal, where records need one.
//
// The zero Register with a Bucket accepts every record. It is not safe for concurrent use.
type Register struct {
	Trust  Trust
	Bucket string
	// Check validates a content; nil for no check.
	Check func(key string, content []byte) error
	// Lasts returns the expiry of a content. Until then, no earlier record of its key can
	// come back. Nil means that contents never expire.
	Lasts func(content []byte) time.Time
	// Now is the clock for expiry; nil means time.Now.
	Now func() time.Time

	good   map[string]good
	faults map[string]error
}

// good is the newest good record of a key.
type good struct {
	content []byte
	at      time.Time
	// until is the latest expiry of the key's good records.
	until time.Time
}

// Take adds entries, oldest first; all is set if they are all that is stored. It returns the
// keys whose content has changed.
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

// absent removes records that are no longer stored, unless records need a seal: then they
// stay in force.
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

// take adds one entry, and reports whether it was good.
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

// open returns the record of an entry, or an error if it is not good.
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

// prune removes expired records.
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

// Content returns the content in force under a key; false if there is none. Operators remove
// a record by an empty one.
func (r *Register) Content(key string) ([]byte, bool) {
	g := r.good[key]
	return g.content, len(g.content) > 0
}

// At returns the time of the seal of the content in force under a key; zero without one.
func (r *Register) At(key string) time.Time { return r.good[key].at }

// Faults returns, by key, why the stored record is not in force. The map must not be changed.
func (r *Register) Faults() map[string]error { return r.faults }
