package natskit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/pause"
)

// Prepared says what Prepare did with one stream.
type Prepared struct {
	Stream string `json:"stream"`
	// Created is set if the stream was missing.
	Created bool `json:"created"`
	// Before is its former number of replicas; 0 if it was missing.
	Before   int `json:"before"`
	Replicas int `json:"replicas"`
}

// Raised reports whether the stream got more replicas.
func (p Prepared) Raised() bool { return !p.Created && p.Replicas > p.Before }

// Prepare creates the missing streams of a layout, and adds missing replicas to the others.
// It also sets their state version and their copies from other regions, and changes nothing
// else. Then it waits until the replicas are current, and spreads the leaders of partitions.
func Prepare(ctx context.Context, js jetstream.JetStream, layout Layout) (done []Prepared, err error) {
	for _, cfg := range layout.Configs() {
		p, err := prepare(ctx, js, cfg, layout.Partitions)
		if err != nil {
			return done, err
		}
		done = append(done, p)
	}
	for _, p := range done {
		if err := caughtUp(ctx, js, p.Stream); err != nil {
			return done, err
		}
	}
	if layout.Partitions > 1 {
		return done, spreadLeaders(ctx, js, layout)
	}
	return done, nil
}

func prepare(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig, partitions int) (Prepared, error) {
	_, before := streamOf(ctx, js, cfg.Name)
	var info *jetstream.StreamInfo
	err := answered(ctx, madeWithin, func(ctx context.Context) (err error) {
		info, err = ensure(ctx, js, cfg, partitions)
		return err
	})
	if err != nil {
		return Prepared{}, err
	}
	if err := follows(cfg, info.Config); err != nil {
		return Prepared{}, err
	}
	if info, err = retouch(ctx, js, cfg, info); err != nil {
		return Prepared{}, err
	}
	p := Prepared{Stream: cfg.Name, Created: before != nil, Replicas: info.Config.Replicas}
	if !p.Created {
		p.Before = p.Replicas
	}
	if cfg.Replicas <= p.Replicas {
		return p, nil
	}
	more := info.Config
	more.Replicas = cfg.Replicas
	if _, err := js.UpdateStream(ctx, more); err != nil {
		if refusedFor(err, tooFew) {
			err = fmt.Errorf("%w: it needs a cluster of at least %d servers with JetStream", err, cfg.Replicas)
		}
		return p, fmt.Errorf("give stream %s %d replicas: %w", cfg.Name, cfg.Replicas, err)
	}
	p.Replicas = cfg.Replicas
	return p, nil
}

// retouch sets the state version of a stream, and its sources if the layout has any.
func retouch(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig, info *jetstream.StreamInfo) (*jetstream.StreamInfo, error) {
	is := info.Config
	if is.Metadata[stateKey] == cfg.Metadata[stateKey] && (len(cfg.Sources) == 0 || sameSources(cfg.Sources, is.Sources)) {
		return info, nil
	}
	is.Metadata = withState(is.Metadata)
	if len(cfg.Sources) > 0 {
		is.Sources = cfg.Sources
	}
	stream, err := js.UpdateStream(ctx, is)
	if err != nil {
		return nil, fmt.Errorf("change stream %s: %w", cfg.Name, err)
	}
	return stream.CachedInfo(), nil
}

const (
	// caughtUpPause is the pause between two looks at a stream's replicas.
	caughtUpPause = 100 * time.Millisecond
	// answerWithin is the time after which a request is sent again: a stream without a leader
	// does not answer.
	answerWithin = 2 * time.Second
	// madeWithin is the time after which a request to create a stream is sent again.
	madeWithin = 10 * time.Second
)

// patiently calls ask until it does not time out, or ctx ends.
func patiently(ctx context.Context, ask func(context.Context) error) error {
	return answered(ctx, answerWithin, ask)
}

// answered is patiently with another timeout for one request.
func answered(ctx context.Context, within time.Duration, ask func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, within)
		err := ask(once)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// streamOf returns a stream; it waits for a leader.
func streamOf(ctx context.Context, js jetstream.JetStream, name string) (stream jetstream.Stream, err error) {
	err = patiently(ctx, func(ctx context.Context) error {
		stream, err = js.Stream(ctx, name)
		return err
	})
	return stream, err
}

// caughtUp waits until a stream has a leader and its replicas are current, except those on
// servers that are offline.
func caughtUp(ctx context.Context, js jetstream.JetStream, name string) error {
	for {
		stream, err := streamOf(ctx, js, name)
		if err == nil && whole(stream.CachedInfo()) {
			return nil
		}
		if err := pause.For(ctx, caughtUpPause); err != nil {
			return fmt.Errorf("wait for the replicas of stream %s: %w", name, err)
		}
	}
}

// whole reports whether all replicas that are online are current.
func whole(info *jetstream.StreamInfo) bool {
	c := info.Cluster
	if c == nil {
		return true
	}
	behind := func(peer *jetstream.PeerInfo) bool { return !peer.Current && !peer.Offline }
	return c.Leader != "" && len(c.Replicas)+1 >= info.Config.Replicas && !slices.ContainsFunc(c.Replicas, behind)
}
