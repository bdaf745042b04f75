package natskit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/partition"
)

// Layout says how missing streams and buckets are created. Existing ones stay as their
// operator made them.
type Layout struct {
	// Memory stores in memory instead of in files.
	Memory bool
	// Replicas of each stream; 0 means 1.
	Replicas int
	// Partitions of each partitioned bucket (see package partition); 0 means 1.
	Partitions int
	// Region is the cluster's role among several regions.
	Region Region
	// needed and others are the streams of Of; nil for all.
	needed, others []string
}

// Of returns a layout with some streams only: those that a service needs, and others that it
// tries to create but does not wait for.
func (l Layout) Of(needed []string, others ...string) Layout {
	l.needed, l.others = append([]string{}, needed...), others
	return l
}

// needs reports whether a stream is needed.
func (l Layout) needs(name string) bool {
	return l.needed == nil || slices.Contains(l.needed, baseStream(name))
}

// lists reports whether a layout of Of has a stream.
func (l Layout) lists(name string) bool {
	return l.needs(name) || slices.Contains(l.others, baseStream(name))
}

// BucketStream returns the name of the stream behind a bucket.
func BucketStream(bucket string) string { return "KV_" + bucket }

// baseStream returns the stream's name without the number of its partition.
func baseStream(name string) string {
	if bucket, ok := strings.CutPrefix(name, BucketStream("")); ok {
		return BucketStream(partition.Base(bucket))
	}
	return name
}

// Bounds of the event stream.
const (
	eventsMaxAge   = 7 * 24 * time.Hour
	eventsMaxBytes = 256 << 20
	// eventsDuplicates is how long JetStream remembers the ids of events.
	eventsDuplicates = 2 * time.Minute
	// timerMarker is the TTL of the tombstone of an expired timer, which waits for a
	// detector.
	timerMarker = eventsMaxAge
	// deadLettersMaxAge and deadLettersMaxBytes bound the stream of dead letters.
	deadLettersMaxAge   = 30 * 24 * time.Hour
	deadLettersMaxBytes = 64 << 20
	// deadLettersEach bounds the dead letters of one endpoint, so that they do not evict
	// others'.
	deadLettersEach = 5000
)

// Bounds of the audit.
const (
	auditMaxAge   = 365 * 24 * time.Hour
	auditMaxBytes = 16 << 20
)

// ErrStreamUnfit means that an existing stream lacks a setting that Unloop needs.
var ErrStreamUnfit = errors.New("existing stream does not fit")

// EnsureStreams creates the missing streams and buckets of the layout. It retries until it
// succeeds, finds an unfit stream (ErrStreamUnfit), or the context ends: meanwhile others may
// create them, or make room.
func (c *Conn) EnsureStreams(ctx context.Context, layout Layout) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 2*time.Second
	said := ""
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := c.ensureAll(ctx, layout)
		if errors.Is(err, ErrStreamUnfit) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, next time.Duration) {
			if errors.Is(err, nats.ErrReconnectBufExceeded) {
				err = ErrNotConnected
			}
			level := slog.LevelDebug
			if err.Error() != said {
				level, said = slog.LevelWarn, err.Error()
			}
			c.log.Log(ctx, level, "JetStream is not ready, retrying", "error", err, "after", next)
		}))
	return err
}

// ensureAll creates all missing streams. It returns the error of the first needed one.
func (c *Conn) ensureAll(ctx context.Context, layout Layout) error {
	layout, err := c.spread(ctx, layout)
	if err != nil {
		return err
	}
	for _, cfg := range layout.Configs() {
		_, err := c.Ensure(ctx, cfg)
		if err != nil && layout.needs(cfg.Name) {
			return err
		}
	}
	return nil
}

// Ensure returns a stream, which it creates if it is missing. If the user may not create it,
// Ensure tries at most once a minute.
func (c *Conn) Ensure(ctx context.Context, cfg jetstream.StreamConfig) (info *jetstream.StreamInfo, err error) {
	refused := c.refusals.creation(c.API("STREAM.CREATE." + cfg.Name))
	err = c.unlessRefused(ctx, func(ctx context.Context) error {
		if refused != nil {
			if _, err := c.JetStream().Stream(ctx, cfg.Name); errors.Is(err, jetstream.ErrStreamNotFound) {
				return refused
			}
		}
		info, err = ensure(ctx, c.JetStream(), cfg, c.Partitions().Count)
		return err
	}, c.API("STREAM.INFO."+cfg.Name), c.API("STREAM.CREATE."+cfg.Name), c.API("STREAM.UPDATE."+cfg.Name))
	return info, err
}

// ensure returns a stream, which it creates if it is missing. partitions is the number of
// partitions of all buckets.
func ensure(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig, partitions int) (*jetstream.StreamInfo, error) {
	stream, err := js.Stream(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = create(ctx, js, cfg, partitions)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = js.Stream(ctx, cfg.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("create stream %s: %w", cfg.Name, err)
	}
	info := stream.CachedInfo()
	if err := StateFault(info.Config); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStreamUnfit, err)
	}
	if cfg.AllowMsgTTL && !info.Config.AllowMsgTTL {
		return nil, fmt.Errorf("%w: %s must allow per-message TTLs (nats stream edit %s --allow-msg-ttl)",
			ErrStreamUnfit, cfg.Name, cfg.Name)
	}
	if lacking := uncovered(cfg.Subjects, info.Config); len(lacking) > 0 {
		return nil, fmt.Errorf("%w: %s must take the subjects %s, too (nats stream edit %s --subjects)",
			ErrStreamUnfit, cfg.Name, strings.Join(lacking, " "), cfg.Name)
	}
	return info, nil
}

// uncovered returns the subjects that a stream does not take. A copy of other streams need
// not take any.
func uncovered(wanted []string, cfg jetstream.StreamConfig) []string {
	if cfg.Mirror != nil || len(cfg.Sources) > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(wanted), func(subject string) bool {
		return slices.ContainsFunc(cfg.Subjects, func(taken string) bool { return covers(taken, subject) })
	})
}

// covers reports whether a subject with wildcards includes another one.
func covers(wide, narrow string) bool {
	for wide != "" && narrow != "" {
		var token, other string
		token, wide, _ = strings.Cut(wide, ".")
		other, narrow, _ = strings.Cut(narrow, ".")
		if token == ">" {
			return true
		}
		if other == ">" || token != other && token != "*" {
			return false
		}
	}
	return wide == narrow
}

// Streams returns the names of the layout's streams, those of buckets included.
func (l Layout) Streams() []string {
	var names []string
	for _, cfg := range l.Configs() {
		names = append(names, cfg.Name)
	}
	return names
}

// Everything returns the layout with the streams of all services.
func (l Layout) Everything() Layout {
	l.needed, l.others = nil, nil
	return l.Of(append(Layout{}.Streams(), VectorsStream))
}

// Configs returns the configurations of the layout's streams.
func (l Layout) Configs() []jetstream.StreamConfig {
	all := l.Region.placed(l.contract())
	if l.needed != nil {
		all = slices.DeleteFunc(append(all, l.Vectors()), func(cfg jetstream.StreamConfig) bool { return !l.lists(cfg.Name) })
	}
	var spread []jetstream.StreamConfig
	for _, cfg := range marked(all) {
		spread = append(spread, l.partitions(cfg)...)
	}
	return spread
}

// partitions returns the streams of all partitions of a stream.
func (l Layout) partitions(cfg jetstream.StreamConfig) []jetstream.StreamConfig {
	bucket, ok := strings.CutPrefix(cfg.Name, BucketStream(""))
	if !ok || !partition.Spread(bucket) || l.Partitions <= 1 {
		return []jetstream.StreamConfig{cfg}
	}
	var all []jetstream.StreamConfig
	for _, name := range partition.Names(bucket, l.Partitions) {
		part := cfg
		part.Name, part.Subjects = BucketStream(name), []string{"$KV." + name + ".>"}
		if name == partition.Truth {
			part.Metadata = partition.Scheme{Count: l.Partitions}.Metadata(cfg.Metadata)
		}
		all = append(all, part)
	}
	return all
}

// VectorsStream is the stream of the bucket of vectors, which systems without embedding
// workers do not have.
const VectorsStream = "KV_" + schemas.BucketVectors

// vectorsMaxBytes bounds the bucket of vectors.
const vectorsMaxBytes = 256 << 20

// Vectors returns the stream of the bucket of vectors, which embedding workers create. Unlike
// other buckets it is read through its leader, because a stale history lacks the newest
// texts.
func (l Layout) Vectors() jetstream.StreamConfig {
	cfg := l.History(schemas.BucketVectors, vectorsMaxBytes)
	cfg.AllowDirect = false
	return cfg
}

// contract returns the streams that every system has.
func (l Layout) contract() []jetstream.StreamConfig {
	timers := l.bucket(schemas.BucketTimers, 1, 32<<20)
	timers.SubjectDeleteMarkerTTL, timers.DenyDelete = timerMarker, false // detectors remove the tombstones that they have handled
	audit := l.messages(schemas.StreamAudit, "What operators did", auditMaxAge, auditMaxBytes, schemas.SubjectAudit)
	audit.DenyDelete = true
	deadLetters := l.messages(schemas.StreamDeadLetters, "Messages that notifiers gave up", deadLettersMaxAge, deadLettersMaxBytes, schemas.SubjectDeadLetter)
	deadLetters.Duplicates, deadLetters.MaxMsgsPerSubject = eventsDuplicates, deadLettersEach
	events := l.messages(schemas.StreamEvents, "Events of all loops", eventsMaxAge, eventsMaxBytes, string(event.Detected), string(event.Ongoing), string(event.Resolved))
	events.Duplicates = eventsDuplicates
	return []jetstream.StreamConfig{
		l.History(schemas.BucketCounters, 256<<20),
		l.bucket(schemas.BucketBlocks, 1, 16<<20),
		l.bucket(schemas.BucketIncidents, 1, 64<<20),
		timers,
		l.History(schemas.BucketSessions, 256<<20),
		l.kept(schemas.BucketPolicies, 64, 64<<20),
		l.kept(schemas.BucketOverrides, 8, 16<<20),
		l.bucket(schemas.BucketSilences, 1, 4<<20),
		audit,
		l.History(schemas.BucketLimits, 64<<20),
		l.bucket(schemas.BucketBudgets, 1, 64<<20),
		l.bucket(schemas.BucketNotifications, 1, 64<<20),
		l.History(schemas.BucketDeliveries, 64<<20),
		deadLetters,
		events,
	}
}

// messages returns a stream of messages below some subjects. When full, it drops the oldest.
func (l Layout) messages(name, description string, age time.Duration, bytes int64, below ...string) jetstream.StreamConfig {
	cfg := jetstream.StreamConfig{
		Name: name, Description: description, MaxAge: age, MaxBytes: l.room(bytes), Discard: jetstream.DiscardOld,
		AllowDirect: true, Storage: l.storage(), Replicas: l.replicas(),
	}
	for _, subject := range below {
		cfg.Subjects = append(cfg.Subjects, subject+".>")
	}
	return cfg
}

// descriptions are the descriptions of buckets.
var descriptions = map[string]string{
	schemas.BucketCounters:      "Counters of requests and prompts",
	schemas.BucketBlocks:        "Cooldowns in force",
	schemas.BucketIncidents:     "Open loops",
	schemas.BucketTimers:        "Timers of open loops",
	schemas.BucketSessions:      "Tool calls of agents, streaks of semantic findings, sessions of answers",
	schemas.BucketPolicies:      "The policy bundle with its history, and the key for caller hashes",
	schemas.BucketOverrides:     "Blocks and exemptions of operators",
	schemas.BucketSilences:      "Silences of messages",
	schemas.BucketLimits:        "Token buckets of rules",
	schemas.BucketBudgets:       "Budgets of rules, and circuit breakers",
	schemas.BucketNotifications: "Messages that endpoints are owed, and the state of endpoints",
	schemas.BucketDeliveries:    "Log of deliveries",
	schemas.BucketVectors:       "Histories of semantic checks",
}

// bucket returns the stream of a key-value bucket. CreateKeyValue is not used, because it
// ties per-message TTLs to delete markers, which would cost a write for every counter
// that expires.
//
// A full bucket refuses new records, so that clients can't evict policies, keys,
// overrides and open loops.
func (l Layout) bucket(name string, history, bytes int64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		MaxBytes:          l.room(bytes),
		Name:              "KV_" + name,
		Subjects:          []string{"$KV." + name + ".>"},
		MaxMsgsPerSubject: history,
		Discard:           jetstream.DiscardNew,
		DenyDelete:        true,
		AllowRollup:       true,
		AllowDirect:       true,
		AllowMsgTTL:       true,
		Description:       descriptions[name],
		Storage:           l.storage(),
		Replicas:          l.replicas(),
	}
}

// kept is bucket for sealed records. No message removes earlier ones, so that readers find
// the last good one: a key whose history is full refuses new records until an operator makes
// room.
func (l Layout) kept(name string, history, bytes int64) jetstream.StreamConfig {
	cfg := l.bucket(name, history, bytes)
	cfg.AllowRollup, cfg.DiscardNewPerSubject, cfg.DenyDelete = false, true, false
	return cfg
}

// History returns the stream of a bucket with records of requests. When full, it drops the
// oldest records; records in use are rewritten and so are newer.
func (l Layout) History(name string, bytes int64) jetstream.StreamConfig {
	cfg := l.bucket(name, 1, bytes)
	cfg.Discard = jetstream.DiscardOld
	return cfg
}

// room returns the maximum size of a stream: bytes on disk, a quarter of that in memory.
func (l Layout) room(bytes int64) int64 {
	if l.Memory {
		return bytes / 4
	}
	return bytes
}

func (l Layout) storage() jetstream.StorageType {
	if l.Memory {
		return jetstream.MemoryStorage
	}
	return jetstream.FileStorage
}

func (l Layout) replicas() int { return max(l.Replicas, 1) }
