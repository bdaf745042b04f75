package recorder

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/partition"
	"github.com/unloop/unloop/schemas/openloop"
)

// ErrNotOpen says that there is no open incident with the given id.
var ErrNotOpen = errors.New(checkpb.ErrorNotOpen)

// Reset resets one counter. kept is how long its record outlives its last use; 0 if
// unknown.
type Reset func(ctx context.Context, ref *checkpb.CounterRef, kept time.Duration) error

// Release ends an incident: it calls reset for each counter behind the incident,
// announces its end and removes its record. It returns the counters.
func (r *Recorder) Release(ctx context.Context, loopID string, reset Reset) ([]*checkpb.CounterRef, error) {
	r.Flush(ctx) // the record lists all counters that this process knows
	key, rec, err := r.find(ctx, loopID)
	if err != nil {
		return nil, err
	}
	for _, detector := range incident.Overflowing(rec) {
		if rec.Counters, err = r.addUnlisted(ctx, key, rec, detector); err != nil {
			return nil, err
		}
	}
	refs := make([]*checkpb.CounterRef, 0, len(rec.Counters))
	shadow := rec.Mode == event.ModeShadow
	for _, c := range rec.Counters {
		fp, err := hex.DecodeString(c.Fingerprint)
		if err != nil {
			continue // not a record of ours; there is no such counter
		}
		ref := &checkpb.CounterRef{Policy: rec.Policy, Detector: c.Detector, Fingerprint: fp, Shadow: shadow}
		if err := reset(ctx, ref, time.Duration(c.KeptSeconds)*time.Second); err != nil {
			return nil, fmt.Errorf("reset counter of %s: %w", c.Detector, err)
		}
		refs = append(refs, ref)
	}
	if err := r.end(ctx, key, loopID, event.ReasonReleased); err != nil {
		return nil, err
	}
	r.log.Info("loop released", "loop_id", loopID, "tenant", rec.Tenant, "policy", rec.Policy)
	return refs, nil
}

// addUnlisted returns the incident's counters together with those that its record has no
// room for: the counters of a detector in schemas.BucketCounters that name the
// incident's conversation.
func (r *Recorder) addUnlisted(ctx context.Context, key string, in openloop.Record, detector string) ([]openloop.Counter, error) {
	all, listed := slices.Clone(in.Counters), map[string]bool{}
	for _, c := range all {
		if c.Detector == detector {
			listed[c.Fingerprint[:min(len(c.Fingerprint), recordName)]], listed[c.Fingerprint] = true, true
		}
	}
	conversation, shadow := lastToken(key), in.Mode == event.ModeShadow
	for _, bucket := range partition.Names(schemas.BucketCounters, r.nc.Partitions().Count) {
		for entry, err := range natskit.Entries(ctx, r.nc.JetStream(), bucket, schemas.CounterPattern(shadow, detector, in.Policy), jetstream.IgnoreDeletes()) {
			if err != nil {
				return nil, err
			}
			name := fingerprintOf(lastToken(entry.Key()))
			for _, mark := range parts(entry.Value(), conversation) {
				if part := name + mark; !listed[part] {
					listed[part] = true
					all = append(all, openloop.Counter{Detector: detector, Fingerprint: part})
				}
			}
		}
	}
	return all, nil
}

// recordName is the length in hex of the part of a fingerprint that names its record.
const recordName = 32

// fingerprintOf returns the beginning of the fingerprint that a key ends in, in hex.
func fingerprintOf(token string) string {
	hash, _ := base64.RawURLEncoding.DecodeString(token) // a key that is none of ours names no counter
	return hex.EncodeToString(hash)
}

// parts returns the parts of a counter's record that name a conversation; "" for the
// record itself.
func parts(stored []byte, conversation string) (marks []string) {
	var rec counter.State
	if rec.Parse(stored) != nil {
		return nil
	}
	if rec.Incident == conversation {
		marks = append(marks, "")
	}
	for _, p := range rec.Parts {
		if p.State.Incident == conversation {
			marks = append(marks, p.Mark)
		}
	}
	return marks
}

func lastToken(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// find returns the open incident with the given id, and its key, which its timer names. It
// reads what the leaders of the buckets have, however many records there are and however
// often they are written.
func (r *Recorder) find(ctx context.Context, loopID string) (key string, in openloop.Record, err error) {
	if !validID(loopID) {
		return "", in, ErrNotOpen
	}
	t, err := r.timerOf(ctx, loopID)
	if err != nil {
		return "", in, err
	}
	key = t.key
	rec, err := r.ledger.Read(ctx, key)
	switch {
	case err != nil:
		return "", in, fmt.Errorf("read incident %s: %w", key, err)
	case rec.LoopID != loopID:
		return "", in, ErrNotOpen
	}
	return key, rec.Record, nil
}

// validID reports whether an id may be that of a loop, which is a token of a subject.
func validID(loopID string) bool { return loopID != "" && schemas.Token(loopID) == loopID }
