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
		Seq  uint64 `json:"seq"`
		Data []byte `json:"data"`
	} `json:"message"`
}

func parseReply(data []byte) (reply, error) {
	var r reply
	if err := json.Unmarshal(data, &r); err != nil {
		return reply{}, fmt.Errorf("unreadable answer: %w", err)
	}
	return r, nil
}

// put writes a record if the key's last revision is still seq (0: none). JetStream drops
// the record when its TTL has ended. done gets the new revision, errConflict or an error
// that is ErrUnavailable.
func (l *Ledger[S, P]) put(key string, data []byte, seq uint64, ttl time.Duration, done func(uint64, error)) {
	// The server tries a TTL as a duration first: one with a unit costs it less.
	msg := &nats.Msg{Subject: "$KV." + l.bucket + "." + key, Data: data, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(seq, 10)},
		jetstream.MsgTTLHeader:              {strconv.FormatInt(int64(ttl/time.Second), 10) + "s"},
	}}
	l.inbox.Request(msg, func(answer []byte, err error) {
		var seq uint64
		answered := err == nil || errors.Is(err, natskit.ErrNoResponder) || errors.Is(err, natskit.ErrNoAnswer)
		if err == nil {
			seq, err = parseAck(answer)
		}
		if errors.Is(err, natskit.ErrNoResponder) { // no stream takes the subject
			err = fmt.Errorf("%w: %w", ErrNoBucket, err)
		}
		if answered && !errors.Is(err, errConflict) {
			l.conn.Wrote("KV_"+l.bucket, err)
		}
		if err != nil && !errors.Is(err, errConflict) {
			err = fmt.Errorf("%w: write %s: %w", ErrUnavailable, key, err)
		}
		done(seq, err)
	})
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
		return 0, errors.New(r.Error.Description)
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

// get reads a record from the stream's leader; a replica may be behind. A key
// that does not exist is the zero record at revision 0; one that was deleted
// or holds what is no record is the zero record at its revision.
func (l *Ledger[S, P]) get(key string, done func(revision[S], error)) {
	body, err := json.Marshal(map[string]string{"last_by_subj": "$KV." + l.bucket + "." + key})
	if err != nil {
		done(revision[S]{}, fmt.Errorf("read %s: %w", key, err))
		return
	}
	msg := &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET.KV_" + l.bucket, Data: body}
	l.inbox.Request(msg, func(answer []byte, err error) {
		var rev revision[S]
		if err == nil {
			rev, err = l.parseRecord(answer)
		}
		if err != nil {
			err = fmt.Errorf("%w: read %s: %w", ErrUnavailable, key, err)
		}
		done(rev, err)
	})
}

func (l *Ledger[S, P]) parseRecord(answer []byte) (revision[S], error) {
	r, err := parseReply(answer)
	switch {
	case err != nil:
		return revision[S]{}, err
	case r.Error != nil && r.Error.Code == codeNoMessageFound:
		return revision[S]{}, nil
	case r.Error != nil && r.Error.Code == codeStreamNotFound:
		return revision[S]{}, ErrNoBucket
	case r.Error != nil || r.Message == nil:
		return revision[S]{}, errors.New("no message in the answer")
	}
	l.metrics.reads.Inc()
	return l.decode(r.Message.Seq, r.Message.Data), nil
}

func (l *Ledger[S, P]) decode(seq uint64, data []byte) revision[S] {
	rev := revision[S]{seq: seq, size: len(data)}
	if len(data) == 0 {
		return rev
	}
	if err := P(&rev.record).Parse(data); err != nil {
		l.metrics.unreadable.Inc()
		rev = revision[S]{seq: seq}
	}
	return rev
}
