package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/silence"
)

// ErrNoSilence means that no silence with the id is in force.
var ErrNoSilence = errors.New("no silence with this id is in force")

// keptAfterEnd is how long the record of a silence outlives it, so that it can be shown.
const keptAfterEnd = time.Hour

// AddSilence stores a silence with an id of its own, and returns it. The error names every
// fault of the silence.
func AddSilence(ctx context.Context, js jetstream.JetStream, s silence.Silence) (silence.Silence, error) {
	if err := s.Validate(); err != nil {
		return s, err
	}
	s.ID = nuid.Next()
	return s, putSilence(ctx, js, s, time.Now())
}

// ExpireSilence ends a silence now.
func ExpireSilence(ctx context.Context, js jetstream.JetStream, id string, now time.Time) (silence.Silence, error) {
	var s silence.Silence
	if schemas.KeyToken(id) != id {
		return s, ErrNoSilence
	}
	kv, err := js.KeyValue(ctx, schemas.BucketSilences)
	if err != nil {
		return s, fmt.Errorf("open bucket %s: %w", schemas.BucketSilences, err)
	}
	entry, err := kv.Get(ctx, id)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return s, ErrNoSilence
	}
	if err != nil {
		return s, fmt.Errorf("read silence %s: %w", id, err)
	}
	if json.Unmarshal(entry.Value(), &s) != nil || !now.Before(s.End) {
		return s, ErrNoSilence
	}
	s.End = now
	if s.Start.After(now) {
		s.Start = now
	}
	return s, putSilence(ctx, js, s, now)
}

// putSilence stores a silence with a TTL of its own.
func putSilence(ctx context.Context, js jetstream.JetStream, s silence.Silence, now time.Time) error {
	body, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("store silence: %w", err)
	}
	ttl := max(s.End.Sub(now), 0) + keptAfterEnd
	msg := &nats.Msg{Subject: "$KV." + schemas.BucketSilences + "." + s.ID, Data: body}
	if _, err := js.PublishMsg(ctx, msg, jetstream.WithMsgTTL(ttl.Truncate(time.Second))); err != nil {
		return fmt.Errorf("store silence: %w", err)
	}
	return nil
}
