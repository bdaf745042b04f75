package natskit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/pause"
)

// ErrNoRoom means that the server has no room for a stream.
var ErrNoRoom = errors.New("the NATS server has no room for it: free or add disk space, or raise the server's max_file_store and the account's limits")

// shares is the number of steps in which the bounds of streams shrink on a server without
// room for all of them: to 15/16, 14/16, and so on to 1/16.
const shares = 16

// creating holds a value while this process creates a stream: while a stream asks for the
// room of all, others would find none.
var creating = make(chan struct{}, 1)

// create creates a stream. The server reserves the bounds of streams, so that the first ones
// could leave no room for the rest. Therefore each stream gets a share of the available room.
// Clients can't ask for the size of that: the first stream asks for the room of all, with
// smaller shares until the server agrees, and the others get the same share.
func create(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig, partitions int) (jetstream.Stream, error) {
	select {
	case creating <- struct{}{}:
		defer func() { <-creating }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	missing := Layout{Memory: cfg.Storage == jetstream.MemoryStorage, Replicas: cfg.Replicas, Partitions: partitions}.Everything().Configs()
	stream, err := createFor(ctx, js, cfg, missing, shares)
	if !lacksRoom(err) {
		return stream, err
	}
	missing, share, fault := others(ctx, js, missing)
	if fault != nil {
		return nil, fault
	}
	if share > 0 {
		stream, err = createBeside(ctx, js, cfg, share)
	}
	for share = shares; share > 0 && lacksRoom(err); share-- {
		stream, err = createFor(ctx, js, cfg, missing, share)
	}
	if lacksRoom(err) {
		usual := total(missing) >> 20
		return nil, fmt.Errorf("%w: the missing streams need %d MiB on each server, and %d MiB for their usual sizes: %w", ErrNoRoom, usual/shares+1, usual, err)
	}
	return stream, err
}

// others returns the missing streams, and the share that the existing ones have; 0 for none.
// It shrinks empty streams that still have the room of all because their creator died.
func others(ctx context.Context, js jetstream.JetStream, all []jetstream.StreamConfig) (missing []jetstream.StreamConfig, share int64, err error) {
	var unused []jetstream.StreamConfig
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		all = slices.DeleteFunc(all, func(cfg jetstream.StreamConfig) bool {
			if cfg.Name == info.Config.Name {
				share = max(share, min(info.Config.MaxBytes*shares/cfg.MaxBytes, shares))
				if info.Config.MaxBytes > cfg.MaxBytes && info.State.Msgs == 0 {
					info.Config.MaxBytes = cfg.MaxBytes
					unused = append(unused, info.Config)
				}
				return true
			}
			return false
		})
	}
	if err := list.Err(); err != nil {
		return nil, 0, fmt.Errorf("list streams: %w", err)
	}
	for _, cfg := range unused {
		if _, err := js.UpdateStream(ctx, cfg); err != nil {
			return nil, 0, fmt.Errorf("give back room: %w", err)
		}
	}
	return all, share, nil
}

// A cluster places streams by reports of its servers, which are up to 10 s old.
const (
	placementDelay = 12 * time.Second
	placementPause = 500 * time.Millisecond
)

// createBeside creates a stream with the share that others have.
func createBeside(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig, share int64) (stream jetstream.Stream, err error) {
	for until := time.Now().Add(placementDelay); ; {
		stream, err = createFor(ctx, js, cfg, nil, share)
		if !refusedFor(err, tooFew) || !lacksRoom(err) || time.Now().After(until) {
			return stream, err
		}
		if err := pause.For(ctx, placementPause); err != nil {
			return nil, err
		}
	}
}

// createFor creates a stream with its share of its bound, if the server has room for the same
// share of all.
func createFor(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig, all []jetstream.StreamConfig, share int64) (jetstream.Stream, error) {
	own := cfg.MaxBytes * share / shares
	cfg.MaxBytes = max(own, total(all)*share/shares)
	stream, err := place(ctx, js, cfg)
	if err == nil && cfg.MaxBytes > own {
		cfg.MaxBytes = own
		stream, err = js.UpdateStream(ctx, cfg)
	}
	if refusedFor(err, tooFew) && !lacksRoom(err) {
		return nil, fmt.Errorf("%w: it needs a cluster of at least %d servers with JetStream; lower --replicas, or add servers", err, cfg.Replicas)
	}
	return stream, err
}

// place creates a stream. It retries while a cluster that has just started takes servers for
// offline.
func place(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) (stream jetstream.Stream, err error) {
	for until := time.Now().Add(placementDelay); ; {
		stream, err = js.CreateStream(ctx, cfg)
		offline := refusedFor(err, tooFew) && !lacksRoom(err) && strings.Contains(err.Error(), "peer offline")
		if !offline || time.Now().After(until) {
			return stream, err
		}
		if err := pause.For(ctx, placementPause); err != nil {
			return nil, err
		}
	}
}

// total returns the sum of the bounds of streams.
func total(all []jetstream.StreamConfig) (bytes int64) {
	for _, cfg := range all {
		bytes += cfg.MaxBytes
	}
	return bytes
}

// lacksRoom reports whether the server could not reserve a stream's bound.
func lacksRoom(err error) bool {
	// In a cluster there are then too few servers with room.
	return refusedFor(err, noRoom) || refusedFor(err, tooFew) && strings.Contains(err.Error(), "insufficient storage")
}

func refusedFor(err error, codes []jetstream.ErrorCode) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && slices.Contains(codes, refused.ErrorCode)
}

var (
	// noRoom are the server's errors for a stream whose MaxBytes it can't reserve:
	// insufficient resources, memory or storage exceeded.
	noRoom = []jetstream.ErrorCode{10023, 10028, 10047}
	// tooFew are those for more replicas than there are servers: no suitable peers, and
	// replicas without a cluster.
	tooFew = []jetstream.ErrorCode{10005, 10074}
)
