package vectors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/embedworker/internal/compare"
	"github.com/unloop/unloop/embedworker/internal/details"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// records is what keeps the histories: a ledger.
type records interface {
	Apply(ctx context.Context, key string, step ledger.Step[history]) error
	Read(key string) (history, error)
}

// KV keeps a scope's history as one record in a JetStream key-value bucket,
// replaced by compare-and-set.
type KV struct {
	records records
	bucket  *bucket // nil if the records are in this process alone
	now     func() time.Time
	// room is how many bytes a record may have.
	room func() int
}

// usualPayload is the largest message of a NATS server that says nothing else,
// and headers what a record's headers take of it at the most.
const (
	usualPayload = 1 << 20
	headers      = 4 << 10
)

func usualRoom() int { return usualPayload - headers }

// roomOf is what the server of a connection has room for.
func roomOf(nc *natskit.Conn) func() int {
	return func() int {
		if most := nc.NATS().MaxPayload(); most > 2*headers {
			return int(most) - headers
		}
		return usualRoom()
	}
}

// NewKV returns a store on a connection, which need not be up yet. The bucket
// is made when it is first missed.
func NewKV(nc *natskit.Conn, layout natskit.Layout, now func() time.Time, reg prometheus.Registerer) *KV {
	return &KV{
		records: ledger.New[history](nc, schemas.BucketVectors, reg),
		bucket:  &bucket{nc: nc, layout: layout}, now: now, room: roomOf(nc),
	}
}

// NewMemory returns a store whose histories are in this process alone, to replay
// what was recorded.
func NewMemory(now func() time.Time) *KV {
	return &KV{records: ledger.NewMemory[history](now), now: now, room: usualRoom}
}

// Kind implements Store.
func (*KV) Kind() string { return "kv" }

// Close implements Store; the connection is the caller's.
func (*KV) Close() error { return nil }

// Ping implements Store.
func (s *KV) Ping(ctx context.Context) error {
	if s.bucket == nil {
		return nil
	}
	return unavailable("ask for bucket", s.bucket.find(ctx))
}

// bucket is the stream behind the histories.
type bucket struct {
	nc     *natskit.Conn
	layout natskit.Layout
}

// bucketTimeout bounds how long is waited for a server that hangs.
const bucketTimeout = 2 * time.Second

// find looks for the bucket and makes it if it is missing.
func (b *bucket) find(ctx context.Context) error {
	if err := b.nc.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	_, err := b.nc.JetStream().Stream(ctx, streamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return b.create(ctx)
	}
	return err
}

const streamName = "KV_" + schemas.BucketVectors

func unavailable(what string, err error) error {
	if err == nil || errors.Is(err, ErrInvalid) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
}

// roomForVectors is the bucket's largest size on disk, in bytes.
const roomForVectors = 256 << 20

// create makes the bucket. Unlike other buckets it is read through its leader,
// since a stale history would miss what came just before.
func (b *bucket) create(ctx context.Context) error {
	cfg := b.layout.History(schemas.BucketVectors, roomForVectors)
	cfg.Description, cfg.AllowDirect = "Histories of semantic checks", false
	_, err := natskit.Create(ctx, b.nc.JetStream(), cfg)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil
	}
	return err
}

// Compare implements Store.
func (s *KV) Compare(ctx context.Context, r Request) (History, error) {
	if err := r.check(); err != nil {
		return History{}, err
	}
	past, err := s.compare(ctx, r)
	if errors.Is(err, ledger.ErrNoBucket) {
		if err = s.bucket.find(ctx); err == nil {
			past, err = s.compare(ctx, r)
		}
	}
	return past, unavailable("compare with history", err)
}

func (s *KV) compare(ctx context.Context, r Request) (past History, err error) {
	key := schemas.VectorKey(r.Scope.Kind, r.scopeHash())
	if r.Peek {
		h, err := s.records.Read(key)
		return found(h.pb, r, s.now()), err
	}
	err = s.records.Apply(ctx, key, func(h history) (history, time.Duration) {
		now := s.now()
		past = found(h.pb, r, now)
		next := fitted(appended(h.pb, r, now), s.room())
		return history{next}, keepFor(next, now)
	})
	return past, err
}

// keepFor is until the last entry has aged out, in whole seconds and at least
// JetStream's least; when each does is in the entries.
func keepFor(h *semanticpb.VectorHistory, now time.Time) time.Duration {
	ttl := time.Second
	for _, e := range h.GetEntries() {
		ttl = max(ttl, time.UnixMilli(e.GetExpiresMs()).Sub(now).Round(time.Second)+time.Second)
	}
	return ttl
}

// fitted drops the oldest entries until the others have room.
func fitted(h *semanticpb.VectorHistory, room int) *semanticpb.VectorHistory {
	size := proto.Size(h)
	for size > room && len(h.GetEntries()) > 1 {
		last := len(h.Entries) - 1
		size -= proto.Size(&semanticpb.VectorHistory{Entries: h.Entries[last:]})
		h.Entries = h.Entries[:last]
	}
	return h
}

// history is a scope's record. What cannot be read is forgotten and replaced.
type history struct{ pb *semanticpb.VectorHistory }

// Append implements ledger.Record.
func (h *history) Append(b []byte) []byte {
	body, err := proto.MarshalOptions{}.MarshalAppend(b, h.pb)
	if err != nil { // a text that is no UTF-8 would be one; requests are checked
		return b
	}
	return body
}

// Parse implements ledger.Record.
func (h *history) Parse(stored []byte) error {
	h.pb = new(semanticpb.VectorHistory)
	return proto.Unmarshal(stored, h.pb)
}

// found compares the request with what is still remembered.
func found(history *semanticpb.VectorHistory, r Request, now time.Time) History {
	entries, replaced := remembered(history, r, now)
	var past []Found
	for _, e := range entries[:min(len(entries), r.Keep)] {
		other := compare.Subject{Halves: make([][]float32, len(e.GetHalves()))}
		for i, h := range e.GetHalves() {
			other.Halves[i] = vector(h)
		}
		past = append(past, Found{
			Past: r.Subject.Compared(compare.Past{
				Similarity:  compare.Similarity(r.Subject, other),
				SameDetails: details.Sum(e.GetMarks()) == r.Subject.Details,
			}, compare.SentencesOf(e.GetSentences()), e.GetDigest()),
			ID: e.GetRequestId(), Text: e.GetText(), Age: now.Sub(time.UnixMilli(e.GetStoredMs())),
		})
	}
	return History{past, replaced}
}

// remembered are the entries that have not aged out and do not belong to the
// request.
func remembered(history *semanticpb.VectorHistory, r Request, now time.Time) (entries []*semanticpb.VectorEntry, replaced bool) {
	for _, e := range history.GetEntries() {
		switch {
		case e.GetExpiresMs() <= now.UnixMilli() || r.ID != "" && e.GetRequestId() == r.ID:
		case !replaced && r.replaces(e.GetRequestId()):
			replaced = true
		default:
			entries = append(entries, e)
		}
	}
	return entries, replaced
}

// appended puts the request before what is still remembered.
func appended(history *semanticpb.VectorHistory, r Request, now time.Time) *semanticpb.VectorHistory {
	newest := &semanticpb.VectorEntry{
		RequestId: r.ID, StoredMs: now.UnixMilli(), ExpiresMs: now.Add(r.TTL).UnixMilli(),
		Marks: uint64(r.Subject.Details), Text: r.Text, Sentences: r.Subject.Sentences.Bytes(), Digest: r.Subject.Digest,
	}
	for _, h := range r.Subject.Halves {
		newest.Halves = append(newest.Halves, appendVector(nil, h))
	}
	entries, _ := remembered(history, r, now)
	return &semanticpb.VectorHistory{Entries: append([]*semanticpb.VectorEntry{newest}, entries[:min(len(entries), r.Keep-1)]...)}
}
