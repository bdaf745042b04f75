package vectors

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/embedworker/internal/judge"
	"github.com/unloop/unloop/embedworker/internal/marks"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/semanticpb"
)

const (
	// casAttempts bounds how often a write is tried against other workers.
	casAttempts = 32
	// kvTimeout bounds a read or write whose server hangs.
	kvTimeout = 2 * time.Second
	// stripes bounds how many scopes are written at once by one worker; writes
	// to one scope wait for each other instead of conflicting.
	stripes = 256
)

// KV keeps a scope's history as one record in a JetStream key-value bucket,
// replaced by compare-and-set.
type KV struct {
	js     jetstream.JetStream
	layout natskit.Layout
	now    func() time.Time
	stream atomic.Pointer[jetstream.Stream] // nil until it was seen
	seed   maphash.Seed
	locks  [stripes]sync.Mutex
}

// NewKV returns a store on a connection, which need not be up yet. The bucket
// is made when it is first missed.
func NewKV(nc *nats.Conn, layout natskit.Layout, now func() time.Time) (*KV, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	return &KV{js: js, layout: layout, now: now, seed: maphash.MakeSeed()}, nil
}

// Kind implements Store.
func (*KV) Kind() string { return "kv" }

// Close implements Store; the connection is the caller's.
func (*KV) Close() error { return nil }

// Ping implements Store.
func (s *KV) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kvTimeout)
	defer cancel()
	_, err := s.find(ctx)
	return unavailable("ask for bucket", err)
}

// find returns the bucket's stream, made if it is missing.
func (s *KV) find(ctx context.Context) (jetstream.Stream, error) {
	stream, err := s.js.Stream(ctx, streamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = s.create(ctx); err == nil {
			stream, err = s.js.Stream(ctx, streamName)
		}
	}
	if err != nil {
		return nil, err
	}
	s.stream.Store(&stream)
	return stream, nil
}

const streamName = "KV_" + schemas.BucketVectors

func unavailable(what string, err error) error {
	if err == nil || errors.Is(err, ErrInvalid) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
}

// create makes the bucket. Unlike other buckets it is read through its leader,
// since a stale history would miss what came just before.
func (s *KV) create(ctx context.Context) error {
	storage := jetstream.FileStorage
	if s.layout.Memory {
		storage = jetstream.MemoryStorage
	}
	_, err := s.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{"$KV." + schemas.BucketVectors + ".>"},
		Description: "Histories of semantic checks", MaxMsgsPerSubject: 1,
		Discard: jetstream.DiscardNew, DenyDelete: true, AllowRollup: true, AllowMsgTTL: true,
		Storage: storage, Replicas: max(1, s.layout.Replicas),
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil
	}
	return err
}

// Compare implements Store.
func (s *KV) Compare(ctx context.Context, r Request) ([]Found, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, kvTimeout)
	defer cancel()
	key := schemas.VectorKey(r.Scope.Kind, r.scopeHash())
	if r.Peek {
		history, _, err := s.read(ctx, key)
		return found(history, r, s.now()), unavailable("read history", err)
	}
	lock := &s.locks[maphash.String(s.seed, key)%stripes]
	lock.Lock()
	defer lock.Unlock()
	for range casAttempts {
		history, revision, err := s.read(ctx, key)
		if err != nil {
			return nil, unavailable("read history", err)
		}
		now := s.now()
		past := found(history, r, now)
		err = s.write(ctx, key, revision, appended(history, r, now), now)
		if err == nil {
			return past, nil
		}
		if !isConflict(err) {
			return nil, unavailable("write history", err)
		}
	}
	return nil, fmt.Errorf("%w: other workers won %d writes", ErrUnavailable, casAttempts)
}

// read returns a history and the revision to replace; none is revision 0.
func (s *KV) read(ctx context.Context, key string) (*semanticpb.VectorHistory, uint64, error) {
	history := new(semanticpb.VectorHistory)
	msg, err := s.last(ctx, subject(key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return history, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	if proto.Unmarshal(msg.Data, history) != nil {
		history.Reset() // what cannot be read is forgotten, and replaced
	}
	return history, msg.Sequence, nil
}

// last reads a subject from the stream that was seen before, or finds it
// again.
func (s *KV) last(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	if stream := s.stream.Load(); stream != nil {
		msg, err := (*stream).GetLastMsgForSubject(ctx, subject)
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return msg, err
		}
	}
	stream, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	return stream.GetLastMsgForSubject(ctx, subject)
}

func subject(key string) string { return "$KV." + schemas.BucketVectors + "." + key }

func (s *KV) write(ctx context.Context, key string, revision uint64, history *semanticpb.VectorHistory, now time.Time) error {
	body, err := proto.Marshal(history)
	if err != nil {
		return err
	}
	ttl := time.Second // JetStream's least; what matters is in the entries
	for _, e := range history.GetEntries() {
		ttl = max(ttl, time.UnixMilli(e.GetExpiresMs()).Sub(now).Round(time.Second)+time.Second)
	}
	msg := nats.NewMsg(subject(key))
	msg.Data = body
	msg.Header.Set("Nats-TTL", strconv.Itoa(int(ttl/time.Second)))
	_, err = s.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(revision), jetstream.WithRetryAttempts(0))
	return err
}

// conflicts are JetStream's codes for a lost compare-and-set, the second one
// with replicas.
var conflicts = map[jetstream.ErrorCode]bool{jetstream.JSErrCodeStreamWrongLastSequence: true, 10164: true}

func isConflict(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && conflicts[api.ErrorCode]
}

// found compares the request with what is still remembered.
func found(history *semanticpb.VectorHistory, r Request, now time.Time) (past []Found) {
	for _, e := range history.GetEntries() {
		if len(past) == r.Keep {
			break
		}
		if !remembered(e, r, now) {
			continue
		}
		other := judge.Subject{Halves: make([][]float32, len(e.GetHalves()))}
		for i, h := range e.GetHalves() {
			other.Halves[i] = vector(h)
		}
		past = append(past, Found{
			Past: judge.Past{
				Similarity: judge.Compare(r.Subject, other),
				SameMarks:  marks.Sum(e.GetMarks()) == r.Subject.Marks,
			},
			ID: e.GetRequestId(), Text: e.GetText(), Age: now.Sub(time.UnixMilli(e.GetStoredMs())),
		})
	}
	return past
}

func remembered(e *semanticpb.VectorEntry, r Request, now time.Time) bool {
	return e.GetExpiresMs() > now.UnixMilli() && (r.ID == "" || e.GetRequestId() != r.ID)
}

// appended puts the request before what is still remembered.
func appended(history *semanticpb.VectorHistory, r Request, now time.Time) *semanticpb.VectorHistory {
	newest := &semanticpb.VectorEntry{
		RequestId: r.ID, StoredMs: now.UnixMilli(), ExpiresMs: now.Add(r.TTL).UnixMilli(),
		Marks: uint64(r.Subject.Marks), Text: r.Text,
	}
	for _, h := range r.Subject.Halves {
		newest.Halves = append(newest.Halves, appendVector(nil, h))
	}
	next := &semanticpb.VectorHistory{Entries: []*semanticpb.VectorEntry{newest}}
	for _, e := range history.GetEntries() {
		if len(next.Entries) < r.Keep && remembered(e, r, now) {
			next.Entries = append(next.Entries, e)
		}
	}
	return next
}
