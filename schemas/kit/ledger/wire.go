package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/jsanswer"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/partition"
)

// put writes a record, or a part of it, if the last revision of its key is still seq (0:
// none). done gets the new revision, or jsanswer.ErrConflict, or an error that wraps
// ErrUnavailable.
func (l *Ledger[S, P]) put(place, key, slot string, data []byte, seq uint64, ttl time.Duration, done func(uint64, error)) {
	// The server first parses a TTL as a duration: one with a unit is cheaper.
	msg := &nats.Msg{Subject: l.conn.RecordSubject(place, key), Data: data, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(seq, 10)},
		jetstream.MsgTTLHeader:              {strconv.FormatInt(int64(ttl/time.Second), 10) + "s"},
	}}
	if l.parted {
		msg.Header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{l.newest(place, key)}
		msg.Subject += "." + slot
	}
	sent := time.Now()
	l.inbox.Request(msg, func(answer []byte, err error) {
		l.metrics.seconds.Observe(time.Since(sent).Seconds())
		var seq uint64
		answered := err == nil || errors.Is(err, natskit.ErrNoResponder) || errors.Is(err, natskit.ErrNoAnswer)
		if err == nil {
			seq, err = jsanswer.Sequence(answer)
		}
		if errors.Is(err, natskit.ErrNoResponder) { // no stream takes the subject
			err = fmt.Errorf("%w: %w", ErrNoBucket, err)
		}
		if answered && !errors.Is(err, jsanswer.ErrConflict) {
			l.conn.Wrote("KV_"+place, err)
		}
		if err != nil && !errors.Is(err, jsanswer.ErrConflict) {
			err = fmt.Errorf("%w: write %s: %w", ErrUnavailable, key, err)
		}
		done(seq, err)
	})
}

// newest returns the subject whose last message is a key's record, or its newest part.
func (l *Ledger[S, P]) newest(place, key string) string {
	subject := "$KV." + place + "." + key
	if l.parted {
		return subject + ".*"
	}
	return subject
}

// selector selects a message of a stream.
type selector struct {
	Last     string `json:"last_by_subj,omitempty"`
	Sequence uint64 `json:"seq,omitempty"`
}

// get reads a record from the leader of a bucket's stream; a replica may be behind. A missing key is
// the zero record at revision 0; a deleted or unreadable one is the zero record at its
// revision. seen is this process's latest copy of the record. The error is errMoved if the
// record is at another place.
func (l *Ledger[S, P]) get(place, key string, seen S, done func(revision[S], error)) {
	l.load(place, selector{Last: l.newest(place, key)}, func(m jsanswer.Message, err error) {
		if err == nil && partition.Moved(m.Headers) {
			err = errMoved
		}
		if err != nil {
			done(revision[S]{}, fmt.Errorf("read %s: %w", key, err))
			return
		}
		rev := l.decode(m)
		rev.place = place
		if !l.parted || rev.size == 0 {
			done(rev, nil)
			return
		}
		l.complete(rev, seen, done)
	})
}

// load reads a message of a bucket's stream.
func (l *Ledger[S, P]) load(place string, which selector, done func(jsanswer.Message, error)) {
	body, _ := json.Marshal(which) // texts and numbers can be encoded
	msg := &nats.Msg{Subject: l.conn.API("STREAM.MSG.GET.KV_" + place), Data: body}
	l.inbox.Request(msg, func(answer []byte, err error) {
		var m jsanswer.Message
		if err == nil {
			m, err = jsanswer.Stored(answer)
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			err = ErrNoBucket
		}
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		done(m, err)
	})
}

func (l *Ledger[S, P]) decode(m jsanswer.Message) revision[S] {
	if m.Sequence > 0 {
		l.metrics.reads.Inc()
	}
	if len(m.Data) > 0 {
		rev := revision[S]{stored: m.Data, version: version{seq: m.Sequence, size: len(m.Data)}}
		if err := P(&rev.record).Parse(m.Data); err == nil {
			return rev
		}
		l.metrics.unreadable.Inc()
	}
	return revision[S]{version: version{seq: m.Sequence}}
}
