package natskit

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/kit/partition"
	"github.com/unloop/unloop/schemas/kit/pause"
)

const (
	// fillInterval is the pause between two measurements.
	fillInterval = 30 * time.Second
	// FullFrom is the fraction of its maximum size from which a bucket counts as full.
	FullFrom = 0.95
)

// Fill measures how full the streams are, and their replicas. A full bucket of history drops
// its oldest records; others refuse new ones. Make it with NewFill.
type Fill struct {
	conn            *Conn
	layout          Layout
	log             *slog.Logger
	part            *prometheus.GaugeVec
	bytes, messages *prometheus.GaugeVec
	replicas        *prometheus.GaugeVec
	behind, silent  *prometheus.GaugeVec
	partitions      *prometheus.GaugeVec
	full            map[string]bool
}

// NewFill returns the measurement of the streams at a connection against their intended
// layout.
func NewFill(conn *Conn, layout Layout, log *slog.Logger, reg prometheus.Registerer) *Fill {
	return &Fill{
		conn: conn, layout: layout, log: log, full: map[string]bool{},
		part:       metric.Gauges(reg, "unloop_bucket_fill", "Used share of a bucket's size, or of its number of records if that has a limit. From 0.95 on, old records may be dropped or new ones refused.", "bucket"),
		bytes:      metric.Gauges(reg, "unloop_stream_bytes", "Size of a stream.", "stream"),
		messages:   metric.Gauges(reg, "unloop_stream_messages", "Messages in a stream, or records in a bucket.", "stream"),
		replicas:   metric.Gauges(reg, "unloop_stream_replicas", "Replicas of a stream by state: asked (--replicas), configured, or current (up to date).", "stream", "state"),
		behind:     metric.Gauges(reg, "unloop_region_behind", "Records of another region that a stream has yet to copy, as far as is known.", "stream", "region"),
		silent:     metric.Gauges(reg, "unloop_region_silent_seconds", "Time since another region, from which a stream is copied, was heard of; since the stream was created if never.", "stream", "region"),
		partitions: metric.Gauges(reg, "unloop_partitions", "Streams of each bucket of state by state: configured, or left from before a growth (0 when it has ended).", "state"),
	}
}

// Run measures the streams until the context ends.
func (f *Fill) Run(ctx context.Context) {
	for f.look(ctx); pause.For(ctx, fillInterval) == nil; {
		f.look(ctx)
	}
}

func (f *Fill) look(ctx context.Context) {
	if !f.conn.Up() {
		return
	}
	scheme := f.conn.Partitions()
	f.partitions.WithLabelValues("configured").Set(float64(scheme.Count))
	f.partitions.WithLabelValues("left").Set(0)
	if scheme.Phase != partition.Settled {
		f.partitions.WithLabelValues("left").Set(float64(scheme.Before))
	}
	ctx, cancel := context.WithTimeout(ctx, fillInterval/2)
	defer cancel()
	ours := f.layout.Everything()
	// An outage is reported elsewhere.
	for info := range f.conn.JetStream().ListStreams(ctx).Info() {
		if ours.needs(info.Config.Name) {
			f.measure(info)
		}
	}
}

// measure shows the size and the replicas of a stream.
func (f *Fill) measure(info *jetstream.StreamInfo) {
	name := info.Config.Name
	f.bytes.WithLabelValues(name).Set(float64(info.State.Bytes))
	f.messages.WithLabelValues(name).Set(float64(info.State.Msgs))
	f.replicas.WithLabelValues(name, "asked").Set(float64(f.layout.replicas()))
	f.replicas.WithLabelValues(name, "configured").Set(float64(info.Config.Replicas))
	f.replicas.WithLabelValues(name, "current").Set(float64(current(info.Cluster)))
	for _, c := range Copies(info) {
		heard := c.Heard
		if heard.IsZero() {
			heard = info.Created
		}
		f.behind.WithLabelValues(name, c.Region).Set(float64(c.Behind))
		f.silent.WithLabelValues(name, c.Region).Set(info.TimeStamp.Sub(heard).Seconds())
	}
	if bucket, ok := strings.CutPrefix(name, BucketStream("")); ok && max(info.Config.MaxBytes, info.Config.MaxMsgs) > 0 {
		f.note(bucket, Fullness(info))
	}
}

// Fullness returns the used fraction of a stream's limit of bytes or of messages, whichever
// is larger; 0 without limits.
func Fullness(info *jetstream.StreamInfo) float64 {
	return max(part(info.State.Bytes, info.Config.MaxBytes), part(info.State.Msgs, info.Config.MaxMsgs))
}

// part returns the used fraction of a limit; 0 without one.
func part(taken uint64, limit int64) float64 {
	if limit <= 0 {
		return 0
	}
	return float64(taken) / float64(limit)
}

// current returns the number of up-to-date replicas of a stream, including its leader; 1
// without a cluster.
func current(c *jetstream.ClusterInfo) int {
	if c == nil {
		return 1
	}
	n := 0
	if c.Leader != "" {
		n++
	}
	for _, peer := range c.Replicas {
		if peer.Current && !peer.Offline {
			n++
		}
	}
	return n
}

// note warns whenever a bucket becomes full.
func (f *Fill) note(bucket string, part float64) {
	f.part.WithLabelValues(bucket).Set(part)
	if full := part >= FullFrom; full != f.full[bucket] {
		f.full[bucket] = full
		if full {
			f.log.Warn("bucket is full: the oldest records are dropped, or new ones refused; give it more room with nats stream edit --max-bytes", "bucket", bucket)
		}
	}
}
