package natskit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
)

const (
	// tendEvery is the pause between two checks of the streams.
	tendEvery = 2 * time.Second
	// probeAfter is the time without a successful write after which one is tried.
	probeAfter = 10 * time.Second
	// probeTimeout bounds one check or one write.
	probeTimeout = 2 * time.Second
	// troubleFor is how long a refused write counts for streams that are not probed.
	troubleFor = 10 * time.Second
)

// probed are the streams in which a write is tried. Their records are read by key alone,
// so that nobody sees the probe.
var probed = []string{bucketStream(schemas.BucketCounters), bucketStream(schemas.BucketSessions), bucketStream(schemas.BucketLimits)}

func bucketStream(bucket string) string { return "KV_" + bucket }

// health has the streams that refuse writes, the time of the last write, and the number
// of connections.
type health struct {
	lastWrite atomic.Int64 // Unix nanoseconds; 0 is never
	connects  atomic.Int64 // to servers
	troubled  atomic.Bool
	mu        sync.Mutex
	trouble   map[string]trouble
	streams   error
}

type trouble struct {
	err error
	at  time.Time
}

// wrote records the result of a write to a stream.
func (h *health) wrote(stream string, err error) {
	if err == nil {
		h.lastWrite.Store(time.Now().UnixNano())
		if !h.troubled.Load() {
			return
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.trouble, stream)
	} else {
		if h.trouble == nil {
			h.trouble = map[string]trouble{}
		}
		h.trouble[stream] = trouble{err, time.Now()}
	}
	h.troubled.Store(len(h.trouble) > 0)
}

// looked records whether the streams could be checked, and created if missing.
func (h *health) looked(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams = err
	for stream, t := range h.trouble {
		if !slices.Contains(probed, stream) && time.Since(t.at) > troubleFor {
			delete(h.trouble, stream)
		}
	}
	h.troubled.Store(len(h.trouble) > 0)
}

func (h *health) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	faults := []error{h.streams}
	for _, stream := range slices.Sorted(maps.Keys(h.trouble)) {
		faults = append(faults, fmt.Errorf("%s refuses writes: %w", stream, h.trouble[stream].err))
	}
	return errors.Join(faults...)
}

// Wrote records the server's answer to a write to a stream. Readiness depends on it.
func (c *Conn) Wrote(stream string, err error) {
	if err != nil && c.Err() != nil {
		return // the connection is the cause
	}
	c.health.wrote(stream, err)
	if err != nil {
		select {
		case c.look <- struct{}{}:
		default: // one request is enough
		}
	}
}

// LastWrite returns the time of the last successful write; zero if there was none.
func (c *Conn) LastWrite() time.Time {
	if at := c.health.lastWrite.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Up reports whether a server is connected, as far as is known.
func (c *Conn) Up() bool { return c.up.Load() && !c.isClosing() }

// Err returns why the connection does not work; nil if it does.
func (c *Conn) Err() error {
	switch {
	case c.isClosing():
		return errClosed
	case !c.up.Load():
		return c.reasons.err()
	case c.Silent():
		return ErrSilent
	default:
		return nil
	}
}

// Reconnects returns how often a server was connected again.
func (c *Conn) Reconnects() int64 { return max(c.health.connects.Load()-1, 0) }

// Ready returns why services can't use NATS: no server answers, streams are missing or
// do not take writes. It returns nil if they can.
func (c *Conn) Ready() error {
	if err := c.Err(); err != nil {
		return err
	}
	return c.health.err()
}

// Tend checks the streams until the context ends. It creates missing ones again, and
// tries a write when there was none for a while.
func (c *Conn) Tend(ctx context.Context, layout Layout) {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	t := &tending{c: c, layout: layout, created: map[string]time.Time{}}
	for {
		select {
		case <-tick.C:
		case <-c.look:
		case <-ctx.Done():
			return
		case <-c.closing:
			return
		}
		if c.Err() == nil {
			t.look(ctx)
		}
	}
}

// tending is the state of Tend: when each stream was created.
type tending struct {
	c       *Conn
	layout  Layout
	created map[string]time.Time
}

func (t *tending) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := t.streams(ctx)
	if t.c.Err() != nil {
		return
	}
	t.c.health.looked(err)
	if err == nil {
		t.probe(ctx)
	}
}

// streams creates the missing streams. It announces streams that were created again, by
// any process: consumers of the old ones get nothing any more.
func (t *tending) streams(ctx context.Context) error {
	anew, missing, err := t.compare(ctx)
	if err != nil {
		return fmt.Errorf("list streams: %w", err)
	}
	if len(missing) > 0 {
		t.c.log.Warn("streams are missing, making them again", "streams", missing)
		for _, cfg := range missingConfigs(t.layout, missing) {
			if err := ensure(ctx, t.c.JetStream(), cfg); err != nil {
				return err
			}
			t.c.health.wrote(cfg.Name, nil)
		}
		anew = true
		if _, _, err := t.compare(ctx); err != nil {
			return fmt.Errorf("list streams: %w", err)
		}
	}
	if anew {
		t.c.changed()
	}
	return nil
}

// compare returns which streams are missing, and whether any was created again since the
// last call.
func (t *tending) compare(ctx context.Context) (anew bool, missing []string, err error) {
	seen := map[string]bool{}
	list := t.c.JetStream().ListStreams(ctx)
	for info := range list.Info() {
		name := info.Config.Name
		seen[name] = true
		if before, known := t.created[name]; known && !before.Equal(info.Created) {
			anew = true
		}
		t.created[name] = info.Created
	}
	if err := list.Err(); err != nil {
		return false, nil, err
	}
	for _, cfg := range t.layout.streams() {
		if !seen[cfg.Name] {
			missing = append(missing, cfg.Name)
		}
	}
	return anew, missing, nil
}

func missingConfigs(layout Layout, missing []string) []jetstream.StreamConfig {
	return slices.DeleteFunc(layout.streams(), func(cfg jetstream.StreamConfig) bool { return !slices.Contains(missing, cfg.Name) })
}

// probe tries a write in the streams that refused one, or in the first stream if there
// was no write for a while.
func (t *tending) probe(ctx context.Context) {
	t.c.health.mu.Lock()
	var streams []string
	for _, name := range probed {
		if _, bad := t.c.health.trouble[name]; bad {
			streams = append(streams, name)
		}
	}
	t.c.health.mu.Unlock()
	if len(streams) == 0 && time.Since(t.c.LastWrite()) > probeAfter {
		streams = probed[:1]
	}
	for _, stream := range streams {
		err := tryWrite(ctx, t.c.JetStream(), stream)
		if t.c.Err() == nil {
			t.c.health.wrote(stream, err)
		}
	}
}

// tryWrite stores a small record that expires after a second.
func tryWrite(ctx context.Context, js jetstream.JetStream, stream string) error {
	_, err := js.PublishMsg(ctx, &nats.Msg{
		Subject: "$KV." + stream[len(bucketStream("")):] + ".probe", Data: []byte("{}"),
		Header: nats.Header{jetstream.MsgTTLHeader: {"1s"}},
	}, jetstream.WithRetryAttempts(0))
	if err != nil {
		return fmt.Errorf("try a write: %w", err)
	}
	return nil
}
