package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/jsanswer"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// timer names the timer of an incident by the incident's id and key, so that a release
// finds the record by the id.
type timer struct{ loopID, key string }

func (t timer) name() string { return t.loopID + "." + t.key }

func timerSubject(name string) string { return "$KV." + schemas.BucketTimers + "." + name }

// timerAt returns the timer of a subject.
func timerAt(subject string) timer {
	loopID, key, _ := strings.Cut(strings.TrimPrefix(subject, timerSubject("")), ".")
	return timer{loopID, key}
}

// timerOf returns the timer of an incident, or its marker, by the incident's id. It asks
// the stream's leader: a replica may be behind.
func (r *Recorder) timerOf(ctx context.Context, loopID string) (timer, error) {
	which, err := json.Marshal(map[string]string{"last_by_subj": timerSubject(timer{loopID, ">"}.name())})
	if err != nil {
		return timer{}, err
	}
	answer, err := r.inbox.Ask(ctx, &nats.Msg{Subject: r.nc.API("STREAM.MSG.GET." + natskit.BucketStream(schemas.BucketTimers)), Data: which})
	var got jsanswer.Message
	if err == nil {
		got, err = jsanswer.Stored(answer)
	}
	switch {
	case err != nil:
		return timer{}, fmt.Errorf("read timer of incident %s: %w", loopID, err)
	case got.Sequence == 0:
		return timer{}, ErrNotOpen
	}
	return timerAt(got.Subject), nil
}

// arm sets the timer of an incident.
func (r *Recorder) arm(ctx context.Context, t timer, wait time.Duration) error {
	seconds := max(int64((wait+time.Second-1)/time.Second), 1)
	_, err := r.nc.JetStream().PublishMsg(ctx, &nats.Msg{
		Subject: r.nc.RecordSubject(schemas.BucketTimers, t.name()), Header: nats.Header{jetstream.MsgTTLHeader: {fmt.Sprintf("%ds", seconds)}},
	})
	if err != nil {
		return fmt.Errorf("set timer of incident %s: %w", t.key, err)
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
	for one, remaining := range lacking {
		faults = append(faults, r.arm(ctx, one, remaining))
	}
	return errors.Join(faults...)
}

// withoutTimer returns the timers of the incidents that have neither a timer nor its
// marker, each with the time until its end.
func (r *Recorder) withoutTimer(ctx context.Context) (map[timer]time.Duration, error) {
	lacking := map[timer]time.Duration{}
	for entry, err := range natskit.Entries(ctx, r.nc.JetStream(), schemas.BucketIncidents, ">", jetstream.IgnoreDeletes()) {
		if err != nil {
			return nil, err
		}
		var rec incident.Record
		if rec.Parse(entry.Value()) == nil && rec.LoopID != "" {
			lacking[timer{rec.LoopID, entry.Key()}] = rec.Remaining(r.now())
		}
	}
	for entry, err := range natskit.Entries(ctx, r.nc.JetStream(), schemas.BucketTimers, ">", jetstream.MetaOnly()) {
		if err != nil {
			return nil, err
		}
		delete(lacking, timerAt(timerSubject(entry.Key())))
	}
	return lacking, nil
}
