package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/partition"
)

// errConflict means that the key's revision is not the expected one.
var errConflict = errors.New("wrong last sequence")

// JetStream's error codes (nats-server, server/errors.json).
const (
	codeWrongLastSequence         = 10071
	codeWrongLastSequenceConstant = 10164 // the same, with replicas
	codeNoMessageFound            = 10037
	codeStreamNotFound            = 10059
)

// reply is the common part of JetStream's answers to writes and reads.
type reply struct {
	Error *struct {
		Code        int    `json:"err_code"`
		Description string `json:"description"`
	} `json:"error"`
	Seq     uint64 `json:"seq"`
	Message *struct {
		Seq     uint64 `json:"seq"`
		Data    []byte `json:"data"`
		Headers []byte `json:"hdrs"`
	} `json:"message"`
}

func parseReply(data []byte) (reply, error) {
	var r reply
	if err := json.Unmarshal(data, &r); err != nil {
		return reply{}, fmt.Errorf("unreadable answer: %w", err)
	}
	return r, nil
}

// put writes a record, or a part of it, if the last revision under its key is still seq
// (0: none). JetStream drops the record when its TTL has ended. done gets the new
// revision, errConflict or an error that is ErrUnavailable.
func (l *Ledger[S, P]) put(place, key, slot string, data []byte, seq uint64, ttl time.Duration, done func(uint64, error)) {
	// The server tries a TTL as a duration first: one with a unit costs it less.
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
			seq, err = parseAck(answer)
		}
		if errors.Is(err, natskit.ErrNoResponder) { // no stream takes the subject
			err = fmt.Errorf("%w: %w", ErrNoBucket, err)
		}
		if answered && !errors.Is(err, errConflict) {
			l.conn.Wrote("KV_"+place, err)
		}
		if err != nil && !errors.Is(err, errConflict) {
			err = fmt.Errorf("%w: write %s: %w", ErrUnavailable, key, err)
		}
		done(seq, err)
	})
}

// newest returns the subject whose last message is a key's newest part.
func (l *Ledger[S, P]) newest(place, key string) string {
	subject := "$KV." + place + "." + key
	if l.parted {
		return subject + ".*"
	}
	return subject
}

// parseAck returns the sequence of a write's acknowledgement.
func parseAck(answer []byte) (uint64, error) {
	if seq, ok := plainAck(answer); ok {
		return seq, nil
	}
	r, err := parseReply(answer)
	switch {
	case err != nil:
		return 0, err
	case r.Error == nil && r.Seq > 0:
		return r.Seq, nil
	case r.Error == nil:
		return 0, errors.New("answer without a sequence")
	case r.Error.Code == codeWrongLastSequence || r.Error.Code == codeWrongLastSequenceConstant:
		return 0, errConflict
	default:
		return 0, &jetstream.APIError{ErrorCode: jetstream.ErrorCode(r.Error.Code), Description: r.Error.Description}
	}
}

// plainAck reads the acknowledgement that nearly every write gets,
// {"stream":"NAME","seq":N} and perhaps more behind a comma, without a JSON
// parser. Anything else is not plain.
func plainAck(answer []byte) (seq uint64, ok bool) {
	rest, ok := bytes.CutPrefix(answer, []byte(`{"stream":"`))
	if !ok {
		return 0, false
	}
	_, rest, ok = bytes.Cut(rest, []byte(`"`))
	if !ok {
		return 0, false
	}
	rest, ok = bytes.CutPrefix(bytes.TrimPrefix(rest, []byte(",")), []byte(`"seq":`))
	if !ok {
		return 0, false
	}
	rest = bytes.TrimLeft(rest, " ")
	digits := 0
	for ; digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9'; digits++ {
		seq = seq*10 + uint64(rest[digits]-'0')
	}
	const longest = 19 // a longer one could overflow
	ok = 0 < digits && digits <= longest && digits < len(rest) && (rest[digits] == '}' || rest[digits] == ',')
	return seq, ok && seq > 0 && !bytes.Contains(rest, []byte(`"error"`))
}

// selector says which message of a stream is read.
type selector struct {
	Last     string `json:"last_by_subj,omitempty"`
	Sequence uint64 `json:"seq,omitempty"`
}

// message is a message of a stream; its sequence is 0 if there is none.
type message struct {
	seq  uint64
	data []byte
	// moved says that the record is at another place.
	moved bool
}

// get reads a record from the leader of a bucket's stream; a replica may be behind. A missing key is
// the zero record at revision 0; a deleted or unreadable one is the zero record at its
// revision. seen is this process's latest copy of the record. The error is errMoved if the
// record is at another place.
func (l *Ledger[S, P]) get(place, key string, seen S, done func(revision[S], error)) {
	l.load(place, selector{Last: l.newest(place, key)}, func(m message, err error) {
		if err == nil && m.moved {
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
func (l *Ledger[S, P]) load(place string, which selector, done func(message, error)) {
	body, _ := json.Marshal(which) // texts and numbers can be encoded
	msg := &nats.Msg{Subject: l.conn.API("STREAM.MSG.GET.KV_" + place), Data: body}
	l.inbox.Request(msg, func(answer []byte, err error) {
		var m message
		if err == nil {
			m, err = parseMessage(answer)
		}
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		done(m, err)
	})
}

func parseMessage(answer []byte) (message, error) {
	r, err := parseReply(answer)
	switch {
	case err != nil:
		return message{}, err
	case r.Error != nil && r.Error.Code == codeNoMessageFound:
		return message{}, nil
	case r.Error != nil && r.Error.Code == codeStreamNotFound:
		return message{}, ErrNoBucket
	case r.Error != nil || r.Message == nil:
		return message{}, errors.New("no message in the answer")
	}
	return message{r.Message.Seq, r.Message.Data, partition.Moved(r.Message.Headers)}, nil
}

func (l *Ledger[S, P]) decode(m message) revision[S] {
	if m.seq > 0 {
		l.metrics.reads.Inc()
	}
	if len(m.data) > 0 {
		rev := revision[S]{stored: m.data, version: version{seq: m.seq, size: len(m.data)}}
		if err := P(&rev.record).Parse(m.data); err == nil {
			return rev
		}
		l.metrics.unreadable.Inc()
	}
	return revision[S]{version: version{seq: m.seq}}
}
