// Package silences stores silences in schemas.BucketSilences, and follows them there.
//
// It does not know what a silence suppresses.
package silences

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/silence"
)

const (
	// grace is how much longer than a silence its record is kept.
	grace = time.Minute
	// markerTTL is the TTL of the tombstone of an expired silence: long enough for every
	// notifier to read it.
	markerTTL = time.Hour
	// idLength is the length of a silence's id.
	idLength = 10
)

// ErrUnknown means that no silence has an id.
var ErrUnknown = errors.New("no silence has this id")

// Add checks a silence, gives it an id, and stores it.
func Add(ctx context.Context, js jetstream.JetStream, s silence.Silence) (silence.Silence, error) {
	id := nuid.New().Next()
	s.ID = id[len(id)-idLength:]
	if err := s.Validate(); err != nil {
		return s, err
	}
	body, err := json.Marshal(s)
	if err != nil {
		return s, fmt.Errorf("store silence: %w", err)
	}
	ttl := max(time.Until(s.End), 0) + grace
	_, err = js.PublishMsg(ctx, &nats.Msg{Subject: subject(js, s.ID), Data: body}, jetstream.WithMsgTTL(ttl.Truncate(time.Second)))
	if err != nil {
		return s, fmt.Errorf("store silence: %w", err)
	}
	return s, nil
}

func subject(js jetstream.JetStream, id string) string {
	return natskit.RecordSubject(js, schemas.BucketSilences, id)
}

// List returns the silences that have not ended, the first to end first.
func List(ctx context.Context, js jetstream.JetStream) ([]silence.Silence, error) {
	all, now := map[string]silence.Silence{}, time.Now()
	for entry, err := range natskit.Entries(ctx, js, schemas.BucketSilences, ">", jetstream.IgnoreDeletes()) {
		if err != nil {
			return nil, err
		}
		if s, ok := parse(entry); ok && now.Before(s.End) {
			all[s.ID] = s
		}
	}
	return sorted(all), nil
}

func parse(entry jetstream.KeyValueEntry) (silence.Silence, bool) {
	var s silence.Silence
	err := json.Unmarshal(entry.Value(), &s)
	return s, err == nil && entry.Operation() == jetstream.KeyValuePut && s.ID == entry.Key()
}

func sorted(all map[string]silence.Silence) []silence.Silence {
	return slices.SortedFunc(maps.Values(all), func(a, b silence.Silence) int { return a.End.Compare(b.End) })
}

// Expire ends a silence at once. It returns ErrUnknown if there is none.
func Expire(ctx context.Context, js jetstream.JetStream, id string) (silence.Silence, error) {
	all, err := List(ctx, js)
	if err != nil {
		return silence.Silence{}, err
	}
	i := slices.IndexFunc(all, func(s silence.Silence) bool { return s.ID == id })
	if i < 0 {
		return silence.Silence{}, fmt.Errorf("expire silence %s: %w", id, ErrUnknown)
	}
	marker := &nats.Msg{Subject: subject(js, id), Header: nats.Header{"KV-Operation": {"PURGE"}, jetstream.MsgRollup: {jetstream.MsgRollupSubject}}}
	if _, err := js.PublishMsg(ctx, marker, jetstream.WithMsgTTL(markerTTL)); err != nil {
		return silence.Silence{}, fmt.Errorf("expire silence %s: %w", id, err)
	}
	return all[i], nil
}
