package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// arm sets the timer of an incident.
func (r *Recorder) arm(ctx context.Context, key string, wait time.Duration) error {
	seconds := max(int64((wait+time.Second-1)/time.Second), 1)
	_, err := r.nc.JetStream().PublishMsg(ctx, &nats.Msg{
		Subject: r.nc.RecordSubject(schemas.BucketTimers, key), Header: nats.Header{jetstream.MsgTTLHeader: {fmt.Sprintf("%ds", seconds)}},
	})
	if err != nil {
		return fmt.Errorf("set timer of incident %s: %w", key, err)
	}
	return nil
}

// adopt sets the timers of open incidents that have none: the detector that opened one may
// have crashed before it set its timer, or the timers were lost.
func (r *Recorder) adopt(ctx context.Context) error {
	timers, incidents := natskit.BucketStream(schemas.BucketTimers), natskit.BucketStream(schemas.BucketIncidents)
	if err := r.nc.EnsureStreams(ctx, r.layout.Of([]string{timers, incidents})); err != nil {
		return err
	}
	lacking, err := r.withoutTimer(ctx)
	faults := []error{err}
	for key, remaining := range lacking {
		faults = append(faults, r.arm(ctx, key, remaining))
	}
	return errors.Join(faults...)
}

// withoutTimer returns the keys of the incidents that have neither a timer nor its marker,
// each with the time until its end.
func (r *Recorder) withoutTimer(ctx context.Context) (map[string]time.Duration, error) {
	lacking := map[string]time.Duration{}
	for entry, err := range natskit.Entries(ctx, r.nc.JetStream(), schemas.BucketIncidents, ">", jetstream.IgnoreDeletes()) {
		if err != nil {
			return nil, err
		}
		var rec incident.Record
		if json.Unmarshal(entry.Value(), &rec) == nil && rec.LoopID != "" {
			lacking[entry.Key()] = rec.Remaining(r.now())
		}
	}
	for entry, err := range natskit.Entries(ctx, r.nc.JetStream(), schemas.BucketTimers, ">", jetstream.MetaOnly()) {
		if err != nil {
			return nil, err
		}
		delete(lacking, entry.Key())
	}
	return lacking, nil
}
