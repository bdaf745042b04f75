// Package jsanswer parses JetStream's answers to writes and reads that are sent as plain
// requests. The client's own calls block, and do not read from a stream's leader.
package jsanswer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrConflict means that the last sequence of the subject is not the expected one.
var ErrConflict = errors.New("wrong last sequence")

// JetStream's error codes (nats-server, server/errors.json).
const (
	codeWrongLast         = 10071
	codeWrongLastConstant = 10164 // the same, with replicas
	codeNoMessage         = 10037
)

// Message is a stored message.
type Message struct {
	Subject  string `json:"subject"`
	Sequence uint64 `json:"seq"`
	Data     []byte `json:"data"`
	Headers  []byte `json:"hdrs"`
}

type reply struct {
	Error   *jetstream.APIError `json:"error"`
	Seq     uint64              `json:"seq"`
	Message *Message            `json:"message"`
}

func parse(answer []byte) (r reply, err error) {
	if err := json.Unmarshal(answer, &r); err != nil {
		return r, fmt.Errorf("unreadable answer: %w", err)
	}
	return r, nil
}

// Sequence returns the sequence of a written message, or ErrConflict.
func Sequence(answer []byte) (uint64, error) {
	if seq, ok := plainAck(answer); ok {
		return seq, nil
	}
	r, err := parse(answer)
	switch {
	case err != nil:
		return 0, err
	case r.Error == nil && r.Seq > 0:
		return r.Seq, nil
	case r.Error == nil:
		return 0, errors.New("answer without a sequence")
	case r.Error.ErrorCode == codeWrongLast || r.Error.ErrorCode == codeWrongLastConstant:
		return 0, ErrConflict
	default:
		return 0, r.Error
	}
}

// Stored returns the message that was read; one with sequence 0 if there is none.
func Stored(answer []byte) (Message, error) {
	r, err := parse(answer)
	switch {
	case err != nil:
		return Message{}, err
	case r.Error != nil && r.Error.ErrorCode == codeNoMessage:
		return Message{}, nil
	case r.Error != nil:
		return Message{}, r.Error
	case r.Message == nil:
		return Message{}, errors.New("no message in the answer")
	}
	return *r.Message, nil
}

// plainAck parses the usual acknowledgement, {"stream":"NAME","seq":N} and perhaps more after
// a comma, faster than a JSON parser. It returns false for anything else.
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
