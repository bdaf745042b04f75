package incident

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
)

// ErrNotOpen says that there is no open incident with the given id.
var ErrNotOpen = errors.New("no open loop with this id")

// Release ends an incident: its record is removed, and reset is called for each
// counter behind it. It returns the counters.
func (r *Recorder) Release(ctx context.Context, loopID string, reset func(context.Context, *checkpb.CounterRef) error) ([]*checkpb.CounterRef, error) {
	key, rec, err := r.find(ctx, loopID)
	if err != nil {
		return nil, err
	}
	refs := make([]*checkpb.CounterRef, 0, len(rec.Counters))
	shadow := rec.Mode == event.ModeShadow
	for _, c := range rec.Counters {
		fp, err := hex.DecodeString(c.Fingerprint)
		if err != nil {
			continue // not a record of ours; there is no such counter
		}
		ref := &checkpb.CounterRef{Policy: rec.Policy, Detector: c.Detector, Fingerprint: fp, Shadow: shadow}
		if err := reset(ctx, ref); err != nil {
			return nil, fmt.Errorf("reset counter of %s: %w", c.Detector, err)
		}
		refs = append(refs, ref)
	}
	if err := r.Purge(ctx, schemas.BucketIncidents, key); err != nil {
		return nil, err
	}
	r.log.Info("loop released", "loop_id", loopID, "tenant", rec.Tenant, "policy", rec.Policy)
	return refs, nil
}

func (r *Recorder) find(ctx context.Context, loopID string) (string, event.Incident, error) {
	kv, err := r.js.KeyValue(ctx, schemas.BucketIncidents)
	if err != nil {
		return "", event.Incident{}, fmt.Errorf("open bucket %s: %w", schemas.BucketIncidents, err)
	}
	watch, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return "", event.Incident{}, fmt.Errorf("list open loops: %w", err)
	}
	defer func() { _ = watch.Stop() }() // the connection's close would end it too
	for {
		select {
		case entry := <-watch.Updates():
			if entry == nil {
				return "", event.Incident{}, ErrNotOpen
			}
			var rec event.Incident
			if json.Unmarshal(entry.Value(), &rec) == nil && rec.LoopID == loopID && loopID != "" {
				return entry.Key(), rec, nil
			}
		case <-ctx.Done():
			return "", event.Incident{}, fmt.Errorf("list open loops: %w", ctx.Err())
		}
	}
}

// Purge removes a record without leaving a marker, so that the next writer
// creates it anew.
func (r *Recorder) Purge(ctx context.Context, bucket, key string) error {
	stream, err := r.js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject("$KV."+bucket+"."+key)); err != nil {
		return fmt.Errorf("remove %s: %w", key, err)
	}
	return nil
}
