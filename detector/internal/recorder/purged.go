package recorder

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// BreakerSubjects matches the subjects of the records of circuit breakers, in all partitions
// of schemas.BucketBudgets.
const BreakerSubjects = "$KV.*.rule.*.*." + finding.CircuitBreaker + ".*"

// OnBreaker ends the incident of a circuit breaker whose record an operator deletes. All
// detectors do so; one that was not connected ends it with the next request.
func (r *Recorder) OnBreaker(m *nats.Msg) {
	if m.Header.Get("KV-Operation") == "" {
		return
	}
	r.announcing.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		if err := r.endPurged(ctx, m.Subject); err != nil {
			r.log.Warn("incident of a deleted circuit breaker is not resolved; the next request does it", "error", err)
		}
	})
}

// endPurged ends the open incident of the breaker whose record has the subject, which names
// the mode, the policy and the beginning of the conversation's hash.
func (r *Recorder) endPurged(ctx context.Context, subject string) error {
	tokens := strings.Split(subject, ".")
	begins, err := base64.RawURLEncoding.DecodeString(tokens[len(tokens)-1])
	if err != nil {
		return nil // not written by Unloop
	}
	keys := strings.Join(tokens[3:5], ".") + "."
	for entry, err := range natskit.Entries(ctx, r.nc.JetStream(), schemas.BucketIncidents, keys+"*", jetstream.IgnoreDeletes()) {
		if err != nil {
			return err
		}
		var rec incident.Record
		if !strings.HasPrefix(entry.Key(), keys+hex.EncodeToString(begins)) || rec.Parse(entry.Value()) != nil || rec.Detector != finding.CircuitBreaker {
			continue
		}
		if err := r.end(ctx, entry.Key(), rec.LoopID, event.ReasonClosed); err != nil {
			return err
		}
	}
	return nil
}
