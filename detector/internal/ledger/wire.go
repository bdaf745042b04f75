package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// errConflict says that the key's revision is not the expected one.
var errConflict = errors.New("wrong last sequence")

// JetStream's error codes (nats-server, server/errors.json).
const (
	codeWrongLastSequence         = 10071
	codeWrongLastSequenceConstant = 10164 // the same, with replicas
	codeNoMessageFound            = 10037
)

// reply is the part that JetStream's answers to writes and reads share.
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

// put writes a record if the key's last revision is still seq (0: none). The
// TTL goes with the message: JetStream drops the record when it has passed.
func (l *Ledger[S, P]) put(key string, data []byte, seq uint64, ttl time.Duration) (uint64, error) {
	msg := &nats.Msg{Subject: "$KV." + l.bucket + "." + key, Data: data, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(seq, 10)},
		jetstream.MsgTTLHeader:              {strconv.FormatInt(int64(ttl/time.Second), 10)},
	}}
	r, err := l.request(msg)
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", key, err)
	}
	switch {
	case r.Error == nil && r.Seq > 0:
		return r.Seq, nil
	case r.Error == nil:
		return 0, fmt.Errorf("%w: write %s: answer without a sequence", ErrUnavailable, key)
	case r.Error.Code == codeWrongLastSequence || r.Error.Code == codeWrongLastSequenceConstant:
		return 0, errConflict
	default:
		return 0, fmt.Errorf("%w: write %s: %s", ErrUnavailable, key, r.Error.Description)
	}
}

// get reads a record from the stream's leader; a replica may be behind. A key
// that does not exist is the zero record at revision 0; one that was deleted
// or holds what is no record is the zero record at its revision.
func (l *Ledger[S, P]) get(key string) (revision[S], error) {
	body, err := json.Marshal(map[string]string{"last_by_subj": "$KV." + l.bucket + "." + key})
	if err != nil {
		return revision[S]{}, fmt.Errorf("read %s: %w", key, err)
	}
	r, err := l.request(&nats.Msg{Subject: "$JS.API.STREAM.MSG.GET.KV_" + l.bucket, Data: body})
	switch {
	case err != nil:
		return revision[S]{}, fmt.Errorf("read %s: %w", key, err)
	case r.Error != nil && r.Error.Code == codeNoMessageFound:
		return revision[S]{}, nil
	case r.Error != nil || r.Message == nil:
		return revision[S]{}, fmt.Errorf("%w: read %s: no message in the answer", ErrUnavailable, key)
	}
	l.metrics.reads.Inc()
	return l.decode(r.Message.Seq, r.Message.Data), nil
}

func (l *Ledger[S, P]) decode(seq uint64, data []byte) revision[S] {
	rev := revision[S]{seq: seq}
	if len(data) == 0 {
		return rev
	}
	if err := json.Unmarshal(data, &rev.record); err != nil {
		l.metrics.unreadable.Inc()
		return revision[S]{seq: seq}
	}
	return rev
}

func (l *Ledger[S, P]) request(msg *nats.Msg) (reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	answer, err := l.nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var r reply
	if err := json.Unmarshal(answer.Data, &r); err != nil {
		return reply{}, fmt.Errorf("%w: unreadable answer: %w", ErrUnavailable, err)
	}
	return r, nil
}
