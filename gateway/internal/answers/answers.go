// Package answers remembers which session an answer belongs to, so that a
// request which only names the answer it goes on from (previous_response_id)
// is known to continue that session, at whatever gateway it arrives, and which
// calls such a request brings the results of.
//
// It finds ids and items in answers as they pass, in memory that does not grow with
// them. It keeps ids, sessions and calls as hashes, and knows nothing of what is in
// an item.
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
	// keep is how long an answer's session is remembered. Providers keep answers
	// for longer, but an agent goes on sooner.
	keep = 24 * time.Hour
	// storeTimeout bounds what is asked of the bucket.
	storeTimeout = 2 * time.Second
	// remembered bounds what one gateway knows of answers without asking, in bytes.
	remembered = 16 << 20
	// entry is about what one that is remembered takes beside its text, in bytes.
	entry = 100
)

// ErrUnknown says that no gateway has seen the answer, or not lately.
var ErrUnknown = errors.New("answer is not known")

// Store remembers sessions and calls by answer.
type Store struct {
	inbox *natskit.Inbox
	known *otter.Cache[string, string]
}

// NewStore returns a store that shares what it knows in schemas.BucketSessions.
func NewStore(nc *natskit.Conn) (*Store, error) {
	known, err := otter.New(&otter.Options[string, string]{
		MaximumWeight: remembered, Weigher: func(k, v string) uint32 { return uint32(len(k) + len(v) + entry) },
	})
	if err != nil {
		return nil, fmt.Errorf("make answer cache: %w", err)
	}
	return &Store{inbox: natskit.NewInbox(nc, storeTimeout), known: known}, nil
}

// Key hashes an answer's id together with its caller: another caller's answer
// of the same id is another answer.
func Key(caller, id string) string {
	sum := sha256.Sum256([]byte("unloop/answer/1\x00" + caller + "\x00" + id))
	return hex.EncodeToString(sum[:16])
}

// Put remembers the session of an answer, and returns when every gateway can
// look it up, so that the client may go on from it at any of them. Without a
// store this gateway alone knows.
func (s *Store) Put(ctx context.Context, caller, id, session string) error {
	return s.put(ctx, schemas.AnswerKey(Key(caller, id)), []byte(session))
}

func (s *Store) put(ctx context.Context, key string, value []byte) error {
	s.known.Set(key, string(value))
	ack, err := s.request(ctx, &nats.Msg{
		Subject: "$KV." + schemas.BucketSessions + "." + key, Data: value,
		Header: nats.Header{jetstream.MsgTTLHeader: {strconv.Itoa(int(keep / time.Second))}},
	})
	if err != nil {
		return fmt.Errorf("remember an answer: %w", err)
	}
	if bytes.Contains(ack, []byte(`"error"`)) {
		return errors.New("remember an answer: the store refused it")
	}
	return nil
}

// Session returns the session of an answer, or ErrUnknown.
func (s *Store) Session(ctx context.Context, caller, id string) (string, error) {
	key := schemas.AnswerKey(Key(caller, id))
	if session, ok := s.known.GetIfPresent(key); ok {
		return session, nil
	}
	return s.get(ctx, key)
}

func (s *Store) get(ctx context.Context, key string) (string, error) {
	value, err := s.request(ctx, &nats.Msg{Subject: "$JS.API.DIRECT.GET.KV_" + schemas.BucketSessions + ".$KV." + schemas.BucketSessions + "." + key})
	if err != nil {
		return "", fmt.Errorf("look an answer up: %w", err)
	}
	if len(value) == 0 { // its status says that there is none
		return "", ErrUnknown
	}
	s.known.Set(key, string(value))
	return string(value), nil
}

// request waits for an answer at most until the context ends.
func (s *Store) request(ctx context.Context, msg *nats.Msg) ([]byte, error) {
	type answer struct {
		data []byte
		err  error
	}
	done := make(chan answer, 1)
	s.inbox.Request(msg, func(data []byte, err error) { done <- answer{data, err} })
	select {
	case a := <-done:
		return a.data, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// PutCalls remembers the calls that are to be answered after an answer, by its id
// or by that of the conversation that it belongs to, and returns when every gateway
// can look them up.
func (s *Store) PutCalls(ctx context.Context, caller, id string, calls []*checkpb.ToolCall) error {
	return s.PutCallsAt(ctx, Key(caller, id), calls)
}

// PutCallsAt is PutCalls for what Key returned.
func (s *Store) PutCallsAt(ctx context.Context, key string, calls []*checkpb.ToolCall) error {
	value, err := proto.Marshal(&checkpb.AnswerCalls{Calls: calls})
	if err != nil {
		return fmt.Errorf("remember an answer's calls: %w", err)
	}
	return s.put(ctx, schemas.AnswerCallsKey(key), value)
}

// PutAsker remembers who asked for an answer that is fetched later, by a caller who
// has the asker's API key and names no user.
func (s *Store) PutAsker(ctx context.Context, caller, id string, asker *checkpb.AnswerAsker) error {
	value, err := proto.Marshal(asker)
	if err != nil {
		return fmt.Errorf("remember who asked for an answer: %w", err)
	}
	return s.put(ctx, schemas.AnswerAskerKey(Key(caller, id)), value)
}

// Asker returns what PutAsker remembered, or ErrUnknown.
func (s *Store) Asker(ctx context.Context, caller, id string) (*checkpb.AnswerAsker, error) {
	key := schemas.AnswerAskerKey(Key(caller, id))
	value, known := s.known.GetIfPresent(key)
	if !known {
		var err error
		if value, err = s.get(ctx, key); err != nil {
			return nil, err
		}
	}
	asker := &checkpb.AnswerAsker{}
	if err := proto.Unmarshal([]byte(value), asker); err != nil {
		return nil, fmt.Errorf("read who asked for an answer: %w", err)
	}
	return asker, nil
}

// Finish returns whether this is the first time, at any gateway, that it is called for an
// answer: whoever is first corrects its reservations.
func (s *Store) Finish(ctx context.Context, caller, id string) (first bool, err error) {
	ack, err := s.request(ctx, &nats.Msg{
		Subject: "$KV." + schemas.BucketSessions + "." + schemas.AnswerSettledKey(Key(caller, id)),
		Header: nats.Header{
			jetstream.MsgTTLHeader: {strconv.Itoa(int(keep / time.Second))}, jetstream.ExpectedLastSubjSeqHeader: {"0"},
		},
	})
	if err != nil {
		return false, fmt.Errorf("finish an answer: %w", err)
	}
	return !bytes.Contains(ack, []byte(`"error"`)), nil
}

// Calls returns what PutCalls remembered, or ErrUnknown. What follows an answer
// changes no more, unlike what follows a conversation.
func (s *Store) Calls(ctx context.Context, caller, id string, changes bool) ([]*checkpb.ToolCall, error) {
	key := schemas.AnswerCallsKey(Key(caller, id))
	value, known := s.known.GetIfPresent(key)
	if !known || changes {
		newer, err := s.get(ctx, key)
		switch {
		case err == nil:
			value = newer
		case !known:
			return nil, err
		}
	}
	var kept checkpb.AnswerCalls
	if err := proto.Unmarshal([]byte(value), &kept); err != nil {
		return nil, fmt.Errorf("read an answer's calls: %w", err)
	}
	return kept.GetCalls(), nil
}
