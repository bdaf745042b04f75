package natskit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
)

// Layout says how missing streams and buckets are created. Existing ones are left as
// their operator made them.
type Layout struct {
	// Memory stores in memory instead of in files.
	Memory bool
	// Replicas of each stream; 0 means 1.
	Replicas int
}

// Bounds of the event stream.
const (
	eventsMaxAge   = 7 * 24 * time.Hour
	eventsMaxBytes = 256 << 20
	// eventsDuplicates is how long JetStream remembers the ids of events.
	eventsDuplicates = 2 * time.Minute
	// incidentMarker is how long the marker of an expired incident is kept.
	incidentMarker = eventsMaxAge
	// deadLettersMaxAge and deadLettersMaxBytes bound the messages that were given up.
	deadLettersMaxAge   = 30 * 24 * time.Hour
	deadLettersMaxBytes = 64 << 20
)

// Bounds of the audit.
const (
	auditMaxAge   = 365 * 24 * time.Hour
	auditMaxBytes = 16 << 20
)

// ErrStreamUnfit means that an existing stream lacks a setting that Unloop needs.
var ErrStreamUnfit = errors.New("existing stream does not fit")

// EnsureStreams creates the missing streams and buckets of the contract. It retries until
// it succeeds, finds an unfit stream (ErrStreamUnfit), or the context ends.
func (c *Conn) EnsureStreams(ctx context.Context, layout Layout) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 2*time.Second
	level := slog.LevelWarn // for the first attempt alone
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := ensureAll(ctx, c.JetStream(), layout)
		if errors.Is(err, ErrStreamUnfit) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, next time.Duration) {
			if errors.Is(err, nats.ErrReconnectBufExceeded) {
				err = ErrNotConnected
			}
			c.log.Log(ctx, level, "JetStream is not ready, trying again", "error", err, "after", next)
			level = slog.LevelDebug
		}))
	return err
}

func ensureAll(ctx context.Context, js jetstream.JetStream, layout Layout) error {
	for _, cfg := range layout.streams() {
		if err := ensure(ctx, js, cfg); err != nil {
			return err
		}
	}
	return nil
}

func ensure(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) error {
	stream, err := js.Stream(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = Create(ctx, js, cfg)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = js.Stream(ctx, cfg.Name)
		}
	}
	if err != nil {
		return fmt.Errorf("create stream %s: %w", cfg.Name, err)
	}
	if cfg.AllowMsgTTL && !stream.CachedInfo().Config.AllowMsgTTL {
		return fmt.Errorf("%w: %s must allow per-message TTLs (nats stream edit %s --allow-msg-ttl)",
			ErrStreamUnfit, cfg.Name, cfg.Name)
	}
	return markExpiry(ctx, js, stream.CachedInfo().Config, cfg.SubjectDeleteMarkerTTL)
}

// markExpiry makes an existing bucket of an earlier version leave markers of what expires.
func markExpiry(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig, keep time.Duration) error {
	if cfg.SubjectDeleteMarkerTTL >= keep {
		return nil
	}
	cfg.SubjectDeleteMarkerTTL = keep
	if _, err := js.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("keep markers in stream %s: %w", cfg.Name, err)
	}
	return nil
}

// Create creates a stream. If the server can't reserve its MaxBytes, the stream gets no
// bound but the server's.
func Create(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := js.CreateStream(ctx, cfg)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && slices.Contains(noRoom, refused.ErrorCode) {
		cfg.MaxBytes = 0
		return js.CreateStream(ctx, cfg)
	}
	return stream, err
}

// noRoom are the server's errors for a stream whose MaxBytes it can't reserve:
// insufficient resources, memory or storage exceeded.
var noRoom = []jetstream.ErrorCode{10023, 10028, 10047}

// Streams returns the names of all streams, those of buckets included.
func (l Layout) Streams() []string {
	var names []string
	for _, cfg := range l.streams() {
		names = append(names, cfg.Name)
	}
	return names
}

func (l Layout) streams() []jetstream.StreamConfig {
	incidents := l.History(schemas.BucketIncidents, 64<<20)
	incidents.SubjectDeleteMarkerTTL = incidentMarker
	return []jetstream.StreamConfig{
		l.History(schemas.BucketCounters, 256<<20),
		l.bucket(schemas.BucketBlocks, 1, 16<<20),
		incidents,
		l.History(schemas.BucketSessions, 256<<20),
		l.bucket(schemas.BucketPolicies, 64, 64<<20),
		l.bucket(schemas.BucketOverrides, 1, 16<<20),
		l.bucket(schemas.BucketSilences, 1, 4<<20),
		{
			Name:        schemas.StreamAudit,
			Description: "What operators did",
			Subjects:    []string{schemas.SubjectAudit + ".>"},
			MaxAge:      auditMaxAge,
			MaxBytes:    l.room(auditMaxBytes),
			Discard:     jetstream.DiscardOld,
			DenyDelete:  true,
			AllowDirect: true,
			Storage:     l.storage(),
			Replicas:    l.replicas(),
		},
		l.History(schemas.BucketLimits, 64<<20),
		l.bucket(schemas.BucketNotifications, 1, 64<<20),
		l.History(schemas.BucketDeliveries, 64<<20),
		{
			Name:        schemas.StreamDeadLetters,
			Description: "Messages that notifiers gave up",
			Subjects:    []string{schemas.SubjectDeadLetter + ".>"},
			MaxAge:      deadLettersMaxAge,
			MaxBytes:    l.room(deadLettersMaxBytes),
			Discard:     jetstream.DiscardOld,
			Duplicates:  eventsDuplicates,
			AllowDirect: true,
			Storage:     l.storage(),
			Replicas:    l.replicas(),
		},
		{
			Name:        schemas.StreamEvents,
			Description: "Events of all loops",
			Subjects:    []string{string(event.Detected) + ".>", string(event.Ongoing) + ".>", string(event.Resolved) + ".>"},
			MaxAge:      eventsMaxAge,
			MaxBytes:    l.room(eventsMaxBytes),
			Discard:     jetstream.DiscardOld,
			Duplicates:  eventsDuplicates,
			AllowDirect: true,
			Storage:     l.storage(),
			Replicas:    l.replicas(),
		},
	}
}

// bucket returns the stream of a key-value bucket. CreateKeyValue is not used, because it
// ties per-message TTLs to delete markers, which would cost a write for every counter
// that expires.
//
// A full bucket refuses new records, so that clients can't evict policies, keys and
// overrides.
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
		Storage:           l.storage(),
		Replicas:          l.replicas(),
	}
}

// History returns the stream of a bucket with records of requests. A full one drops the
// oldest records; those that are in use are written again and so are newer.
func (l Layout) History(name string, bytes int64) jetstream.StreamConfig {
	cfg := l.bucket(name, 1, bytes)
	cfg.Discard = jetstream.DiscardOld
	return cfg
}

// room returns the maximum size of a stream: bytes on disk, or a quarter of them in
// memory.
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
