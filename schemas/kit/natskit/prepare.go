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
	// Created says that the stream was missing.
	Created bool `json:"created"`
	// Before is how many replicas it had; 0 if it was missing.
	Before   int `json:"before"`
	Replicas int `json:"replicas"`
}

// Raised reports whether the stream got more replicas.
func (p Prepared) Raised() bool { return !p.Created && p.Replicas > p.Before }

// Prepare creates the missing streams of a layout, and gives those that have fewer
// replicas than the layout more of them, in place. It marks their state, has the layout's
// copies of other regions made, and changes nothing else. Then it waits
// until the replicas have what the stream has, and spreads the leaders of partitions.
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

// retouch gives a stream the mark of its state, and the sources that it should have, where any
// are named.
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
	// answerWithin is the time after which a request is sent again: nobody answers those for a
	// stream that has no leader at the moment.
	answerWithin = 2 * time.Second
	// madeWithin is the time after which the request to make a stream is sent again.
	madeWithin = 10 * time.Second
)

// patiently calls ask until it is answered or ctx ends.
func patiently(ctx context.Context, ask func(context.Context) error) error {
	return answered(ctx, answerWithin, ask)
}

// answered is patiently for requests whose answers take so long at the most.
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

// streamOf returns a stream, once it has a leader.
func streamOf(ctx context.Context, js jetstream.JetStream, name string) (stream jetstream.Stream, err error) {
	err = patiently(ctx, func(ctx context.Context) error {
		stream, err = js.Stream(ctx, name)
		return err
	})
	return stream, err
}

// caughtUp waits until a stream has a leader and all of its replicas are current, but for those
// on servers that are away.
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

// whole reports whether all replicas that can have all of a stream do.
func whole(info *jetstream.StreamInfo) bool {
	c := info.Cluster
	if c == nil {
		return true
	}
	behind := func(peer *jetstream.PeerInfo) bool { return !peer.Current && !peer.Offline }
	return c.Leader != "" && len(c.Replicas)+1 >= info.Config.Replicas && !slices.ContainsFunc(c.Replicas, behind)
}
