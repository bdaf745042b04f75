// Package answers stores the session and the tool calls of an answer by its id. A later
// request may only name the answer that it continues (previous_response_id); any gateway
// then finds its session and the calls for its results.
//
// The package finds ids, items and errors in answers as they pass. It stores hashes of ids,
// sessions and calls, and does not parse the items.
package answers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

const (
	// keep is the TTL of an answer. Providers keep answers for longer, but agents continue
	// sooner.
	keep = 24 * time.Hour
	// storeTimeout bounds a request to the bucket.
	storeTimeout = 2 * time.Second
	// cacheSize is the maximum size of this gateway's cache, in bytes.
	cacheSize = 16 << 20
	// entrySize is the approximate overhead of a cached entry, in bytes.
	entrySize = 100
)

// ErrUnknown means that no gateway has seen the answer within a day.
var ErrUnknown = errors.New("answer is not known")

// Store keeps answers in schemas.BucketSessions, where all gateways can look them up.
type Store struct {
	inbox *natskit.Inbox
	cache *otter.Cache[string, string]
	// read is the prefix of the subjects of requests for records, and records that of the
	// subjects of records.
	read, records string
}

// NewStore returns a store on a connection.
func NewStore(nc *natskit.Conn) (*Store, error) {
	cache, err := otter.New(&otter.Options[string, string]{
		MaximumWeight: cacheSize, Weigher: func(k, v string) uint32 { return uint32(len(k) + len(v) + entrySize) },
	})
	if err != nil {
		return nil, fmt.Errorf("make answer cache: %w", err)
	}
	read := nc.API("DIRECT.GET.KV_" + schemas.BucketSessions + ".$KV." + schemas.BucketSessions + ".")
	return &Store{inbox: natskit.NewInbox(nc, storeTimeout), cache: cache, read: read, records: nc.RecordSubject(schemas.BucketSessions, "")}, nil
}

// Key hashes an answer's id together with its caller: the same id of another caller is
// another answer.
func Key(caller, id string) string {
	sum := sha256.Sum256([]byte("unloop/answer/1\x00" + caller + "\x00" + id))
	return hex.EncodeToString(sum[:16])
}

// Put stores the session of an answer, and returns when every gateway can look it up, since
// the client may continue at any of them. Without a bucket only this gateway knows it.
func (s *Store) Put(ctx context.Context, caller, id, session string) error {
	return s.put(ctx, schemas.AnswerKey(Key(caller, id)), []byte(session))
}

// Session returns the session of an answer, or ErrUnknown.
func (s *Store) Session(ctx context.Context, caller, id string) (string, error) {
	return s.lookup(ctx, schemas.AnswerKey(Key(caller, id)), false)
}

// PutCalls stores the calls whose results are expected after an answer, by the id of the
// answer or its conversation, and returns when every gateway can look them up.
func (s *Store) PutCalls(ctx context.Context, caller, id string, calls []*checkpb.ToolCall) error {
	return s.PutCallsAt(ctx, Key(caller, id), calls)
}

// PutCallsAt is PutCalls with a key that Key returned.
func (s *Store) PutCallsAt(ctx context.Context, key string, calls []*checkpb.ToolCall) error {
	return s.putMessage(ctx, schemas.AnswerCallsKey(key), &checkpb.AnswerCalls{Calls: calls})
}

// Calls returns the calls that PutCalls stored, or ErrUnknown. changes says that newer ones
// may have replaced them: that is so for a conversation, and never for an answer.
func (s *Store) Calls(ctx context.Context, caller, id string, changes bool) ([]*checkpb.ToolCall, error) {
	var kept checkpb.AnswerCalls
	err := s.message(ctx, schemas.AnswerCallsKey(Key(caller, id)), changes, &kept)
	return kept.GetCalls(), err
}

// PutAsker stores who asked for an answer in background mode, which a caller with the same
// API key and no user fetches later.
func (s *Store) PutAsker(ctx context.Context, caller, id string, asker *checkpb.AnswerAsker) error {
	return s.putMessage(ctx, schemas.AnswerAskerKey(Key(caller, id)), asker)
}

// Asker returns the asker that PutAsker stored, or ErrUnknown.
func (s *Store) Asker(ctx context.Context, caller, id string) (*checkpb.AnswerAsker, error) {
	asker := &checkpb.AnswerAsker{}
	if err := s.message(ctx, schemas.AnswerAskerKey(Key(caller, id)), false, asker); err != nil {
		return nil, err
	}
	return asker, nil
}

// Finish reports whether this is its first call for an answer at any gateway. The first
// caller corrects the answer's reservations.
func (s *Store) Finish(ctx context.Context, caller, id string) (first bool, err error) {
	ack, err := s.write(ctx, schemas.AnswerFinishedKey(Key(caller, id)), nil, nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"0"}})
	if err != nil {
		return false, fmt.Errorf("finish answer: %w", err)
	}
	return !refused(ack), nil
}

func (s *Store) putMessage(ctx context.Context, key string, m proto.Message) error {
	value, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return s.put(ctx, key, value)
}

func (s *Store) put(ctx context.Context, key string, value []byte) error {
	s.cache.Set(key, string(value))
	ack, err := s.write(ctx, key, value, nats.Header{})
	if err != nil {
		return fmt.Errorf("store answer: %w", err)
	}
	if refused(ack) {
		return errors.New("store answer: refused by the server")
	}
	return nil
}

// write sends a value to the bucket, and returns its acknowledgement.
func (s *Store) write(ctx context.Context, key string, value []byte, header nats.Header) (ack []byte, err error) {
	header.Set(jetstream.MsgTTLHeader, strconv.Itoa(int(keep/time.Second)))
	return s.inbox.Ask(ctx, &nats.Msg{Subject: s.records + key, Data: value, Header: header})
}

// refused reports whether an acknowledgement says that the write was refused.
func refused(ack []byte) bool { return bytes.Contains(ack, []byte(`"error"`)) }

// message reads a value into a message.
func (s *Store) message(ctx context.Context, key string, changes bool, m proto.Message) error {
	value, err := s.lookup(ctx, key, changes)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal([]byte(value), m); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}

// lookup returns a value, from the cache if it is there and never changes. If the store
// fails, it returns the cached value in any case.
func (s *Store) lookup(ctx context.Context, key string, changes bool) (string, error) {
	value, cached := s.cache.GetIfPresent(key)
	if cached && !changes {
		return value, nil
	}
	newer, err := s.inbox.Ask(ctx, &nats.Msg{Subject: s.read + key})
	switch {
	case err == nil && len(newer) > 0:
		s.cache.Set(key, string(newer))
		return string(newer), nil
	case cached:
		return value, nil
	case err != nil:
		return "", fmt.Errorf("look up answer: %w", err)
	default: // the answer's status says that there is none
		return "", ErrUnknown
	}
}
