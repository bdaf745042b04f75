package ledger

import (
	"sync"

	"github.com/unloop/unloop/schemas/kit/jsanswer"
)

// Parted is a record in parts. Each write stores only the newest part, under a slot of its
// key, "KEY.SLOT". The newest part lists the older ones that still belong to the record. A
// write expects that the newest part of all slots is the one that this process saw last, so
// it is a compare-and-set on the whole record.
type Parted[S any] interface {
	// Slot returns the slot of the part that Append writes.
	Slot() string
	// Stored sets the sequence of the newest part. It is called before others see the record.
	Stored(seq uint64)
	// Missing takes the older parts from the version that this process saw before, and
	// returns the sequences of the others.
	Missing(seen S) []uint64
	// Add adds a missing older part. It is not called for parts that are gone.
	Add(seq uint64, stored []byte)
	// Whole returns the record as a new one that is not stored yet.
	Whole() S
	// Size returns the size of all parts in bytes.
	Size() int
}

// parts returns the record as Parted; nil if it has no parts.
func parts[S any, P Record[S]](record *S) Parted[S] {
	p, _ := any(P(record)).(Parted[S])
	return p
}

// slot returns the slot of the part to write; "" for a record without parts.
func (l *Ledger[S, P]) slot(record *S) string {
	if p := parts[S, P](record); p != nil {
		return p.Slot()
	}
	return ""
}

// complete reads the older parts of a record.
func (l *Ledger[S, P]) complete(rev revision[S], seen S, done func(revision[S], error)) {
	record := parts[S, P](&rev.record)
	record.Stored(rev.seq)
	missing := record.Missing(seen)
	if len(missing) == 0 {
		rev.size = record.Size()
		done(rev, nil)
		return
	}
	var mu sync.Mutex
	var fault error
	left := len(missing)
	for _, seq := range missing {
		l.load(rev.place, selector{Sequence: seq}, func(m jsanswer.Message, err error) {
			mu.Lock()
			switch {
			case err != nil:
				fault = err
			case len(m.Data) > 0:
				record.Add(seq, m.Data)
				rev.size = record.Size()
			}
			left--
			last := left == 0
			mu.Unlock()
			if last {
				done(rev, fault)
			}
		})
	}
}
