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
	// tendEvery is the pause between two checks of the streams, and tendIdle that while
	// nothing is written.
	tendEvery, tendIdle = 2 * time.Second, 20 * time.Second
	// probeAfter is the time without a successful write after which one is tried.
	probeAfter = 10 * time.Second
	// probeTimeout bounds one check or one write.
	probeTimeout = 2 * time.Second
	// troubleFor is how long a refused write counts for streams that are not probed.
	troubleFor = 10 * time.Second
)

// probed are the streams that services test with a write. Their records are only read by key,
// so that nobody sees it.
var probed = []string{
	BucketStream(schemas.BucketCounters), BucketStream(schemas.BucketSessions), BucketStream(schemas.BucketLimits), BucketStream(schemas.BucketBudgets), BucketStream(schemas.BucketNotifications),
}

// health is the state of writes and streams.
type health struct {
	lastWrite atomic.Int64 // Unix nanoseconds; 0 is never
	connects  atomic.Int64 // to servers
	troubled  atomic.Bool
	mu        sync.Mutex
	trouble   map[string]trouble
	streams   error
	// lacking has the number of missing replicas by stream.
	lacking map[string]int
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
		h.trouble[stream] = trouble{err, time.Now()}
	}
	h.troubled.Store(len(h.trouble) > 0)
}

// looked records the result of a check of the streams. Probed streams stay in trouble until a
// probe succeeds.
func (h *health) looked(err error, probed []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams = err
	for stream, t := range h.trouble {
		if !slices.Contains(probed, baseStream(stream)) && time.Since(t.at) > troubleFor {
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

// Wrote records the result of a write to a stream, for Ready.
func (c *Conn) Wrote(stream string, err error) {
	if err != nil && c.Err() != nil {
		return // the connection is the cause
	}
	c.health.wrote(stream, err)
	if err != nil {
		signal(c.look)
		signal(c.suspect)
	}
}

// LastWrite returns the time of the last successful write; zero if there was none.
func (c *Conn) LastWrite() time.Time {
	if at := c.health.lastWrite.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Up reports whether a server is connected, as far as known.
func (c *Conn) Up() bool { return c.up.Load() && !c.isClosing() }

// Err returns the reason for which the connection does not work; nil if it does.
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

// Reconnects returns the number of reconnects.
func (c *Conn) Reconnects() int64 { return max(c.health.connects.Load()-1, 0) }

// Ready returns an error if services can't use NATS: no server answers, or streams are
// missing or refuse writes.
func (c *Conn) Ready() error {
	if err := c.Err(); err != nil {
		return err
	}
	return c.health.err()
}

// Tend checks the streams until the context ends. It recreates missing ones, and tries a
// write when there was none for a while.
func (c *Conn) Tend(ctx context.Context, layout Layout) {
	t := &tending{c: c, layout: layout, created: map[string]time.Time{}, missing: map[string]bool{}}
	for {
		select {
		case <-time.After(t.rest()):
		case <-c.look:
		case <-ctx.Done():
			return
		case <-c.life.Done():
			return
		}
		if c.Err() == nil {
			t.look(ctx)
			c.regain(ctx, againAfter)
		}
	}
}

// tending is the state of Tend: when each stream was created, which are missing, and when
// a write was tried.
type tending struct {
	c       *Conn
	layout  Layout
	created map[string]time.Time
	missing map[string]bool
	tried   time.Time
}

// rest returns the pause before the next check.
func (t *tending) rest() time.Duration {
	last := t.c.LastWrite()
	if len(t.created) > 0 && t.c.Ready() == nil && (last.Equal(t.tried) || time.Since(last) > tendIdle) {
		return tendIdle
	}
	return tendEvery
}

func (t *tending) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := t.streams(ctx)
	if t.c.Err() != nil {
		return
	}
	probed := slices.DeleteFunc(slices.Clone(probed), func(name string) bool { return !t.layout.needs(name) })
	t.c.health.looked(err, probed)
	if err == nil {
		t.probe(ctx, probed)
	}
}

// looked is the result of a look at one stream.
type looked struct {
	info *jetstream.StreamInfo
	err  error
	// missing is set if it was not there, made if it was created.
	missing, made bool
}

// streams creates the missing streams. It signals listeners of Changed if a stream was
// recreated by any process: consumers of the old one get nothing any more.
func (t *tending) streams(ctx context.Context) error {
	layout, err := t.c.spread(ctx, t.layout)
	if err != nil {
		return err
	}
	all := layout.Configs()
	found := make([]looked, len(all))
	var looking sync.WaitGroup
	for i, cfg := range all {
		looking.Go(func() { found[i] = t.one(ctx, cfg) })
	}
	looking.Wait()
	anew, faults := false, []error(nil)
	for i, one := range found {
		name := all[i].Name
		t.say(name, one)
		if one.err != nil {
			if t.layout.needs(name) {
				faults = append(faults, one.err)
			}
			continue
		}
		before, known := t.created[name]
		anew = anew || one.made || known && !before.Equal(one.info.Created)
		t.created[name] = one.info.Created
		t.c.lacks(name, all[i].Replicas-one.info.Config.Replicas)
	}
	if anew {
		t.c.changed()
	}
	return errors.Join(faults...)
}

// say logs once that a stream is missing, and that it was created.
func (t *tending) say(name string, one looked) {
	if one.missing && !t.missing[name] {
		t.c.log.Warn("stream is missing, creating it", "stream", name)
	}
	if one.made {
		t.c.log.Info("stream was made", "stream", name)
	}
	t.missing[name] = one.missing && !one.made
}

// one looks up a stream, and creates it if it is missing.
func (t *tending) one(ctx context.Context, cfg jetstream.StreamConfig) (found looked) {
	found.err = t.c.unlessRefused(ctx, func(ctx context.Context) error {
		stream, err := t.c.JetStream().Stream(ctx, cfg.Name)
		if err == nil {
			found.info = stream.CachedInfo()
		}
		return err
	}, t.c.API("STREAM.INFO."+cfg.Name))
	if !errors.Is(found.err, jetstream.ErrStreamNotFound) {
		if found.err != nil {
			found.err = fmt.Errorf("look for stream %s: %w", cfg.Name, found.err)
		}
		return found
	}
	found.missing = true
	if found.info, found.err = t.c.Ensure(ctx, cfg); found.err == nil {
		found.made = true
		t.c.health.wrote(cfg.Name, nil)
	}
	return found
}

// lacks records the number of missing replicas of a stream, and logs it once.
func (c *Conn) lacks(stream string, replicas int) {
	h := &c.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lacking[stream] == 0 && replicas > 0 {
		c.log.Warn("stream has fewer replicas than asked for: add them with unloop nats init --replicas N", "stream", stream, "missing", replicas)
	}
	if h.lacking[stream] = replicas; replicas <= 0 {
		delete(h.lacking, stream)
	}
}

// Lacking returns the number of missing replicas of each stream that has fewer than asked for.
func (c *Conn) Lacking() map[string]int {
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	return maps.Clone(c.health.lacking)
}

// probe tries a write to the streams that refused one, or to the first if there was no write
// for a while.
func (t *tending) probe(ctx context.Context, probed []string) {
	t.c.health.mu.Lock()
	var streams []string
	for name := range t.c.health.trouble {
		if slices.Contains(probed, baseStream(name)) {
			streams = append(streams, name)
		}
	}
	t.c.health.mu.Unlock()
	if len(streams) == 0 && len(probed) > 0 && time.Since(t.c.LastWrite()) > probeAfter {
		streams = probed[:1]
	}
	for _, stream := range streams {
		err := tryWrite(ctx, t.c.JetStream(), stream)
		if t.c.Err() == nil {
			t.c.health.wrote(stream, err)
		}
		t.tried = t.c.LastWrite()
	}
}

// ProbeKey is the key of the record that tryWrite stores in a bucket.
const ProbeKey = "probe"

// tryWrite stores a small record that expires after a second.
func tryWrite(ctx context.Context, js jetstream.JetStream, stream string) error {
	_, err := js.PublishMsg(ctx, &nats.Msg{
		Subject: RecordSubject(js, stream[len(BucketStream("")):], ProbeKey), Data: []byte("{}"),
		Header: nats.Header{jetstream.MsgTTLHeader: {"1s"}},
	}, jetstream.WithRetryAttempts(0))
	if err != nil {
		return fmt.Errorf("try a write: %w", err)
	}
	return nil
}
