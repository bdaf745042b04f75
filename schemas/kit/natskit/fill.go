package natskit

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas"
)

const (
	// fillInterval is the pause between two measurements.
	fillInterval = 30 * time.Second
	// fullFrom is the part of its maximum size from which a bucket counts as full.
	fullFrom = 0.95
)

// Fill measures how full the buckets are. A full bucket of history drops its oldest
// records; others refuse new ones. Make it with NewFill.
type Fill struct {
	conn *Conn
	log  *slog.Logger
	part *prometheus.GaugeVec
	full map[string]bool
}

// NewFill returns the measurement of the buckets at a connection.
func NewFill(conn *Conn, log *slog.Logger, reg prometheus.Registerer) *Fill {
	f := &Fill{conn: conn, log: log, full: map[string]bool{}, part: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "unloop_bucket_fill", Help: "Part of a bucket's room that is taken; from 0.95 on old records are dropped, or new ones refused.",
	}, []string{"bucket"})}
	reg.MustRegister(f.part)
	return f
}

// Run measures the buckets until the context ends.
func (f *Fill) Run(ctx context.Context) {
	tick := time.NewTicker(fillInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (f *Fill) look(ctx context.Context) {
	if !f.conn.Up() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, fillInterval/2)
	defer cancel()
	for _, bucket := range []string{
		schemas.BucketCounters, schemas.BucketBlocks, schemas.BucketIncidents, schemas.BucketSessions, schemas.BucketPolicies,
		schemas.BucketOverrides, schemas.BucketLimits, schemas.BucketVectors, schemas.BucketNotifications, schemas.BucketDeliveries,
		schemas.BucketSilences,
	} {
		stream, err := f.conn.JetStream().Stream(ctx, "KV_"+bucket)
		if err != nil {
			continue // missing streams and outages are reported elsewhere
		}
		if info := stream.CachedInfo(); info.Config.MaxBytes > 0 {
			f.note(bucket, float64(info.State.Bytes)/float64(info.Config.MaxBytes))
		}
	}
}

// note warns each time that a bucket becomes full.
func (f *Fill) note(bucket string, part float64) {
	f.part.WithLabelValues(bucket).Set(part)
	if full := part >= fullFrom; full != f.full[bucket] {
		f.full[bucket] = full
		if full {
			f.log.Warn("bucket is full: the oldest records are dropped, or new ones refused; give it more room with nats stream edit --max-bytes", "bucket", bucket)
		}
	}
}
