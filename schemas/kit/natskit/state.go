package natskit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/pause"
)

// StateVersion is the version of the stored state. It grows when earlier releases can't read
// what this one stores. Each release continues the states of the two versions before its own.
const StateVersion = 1

// stateKey is the key of the version in the metadata of streams. Streams without it have
// version 1.
const stateKey = "unloop.state"

// oldestState is the oldest version that this release continues.
const oldestState = max(StateVersion-2, 1)

// ErrState means that another release wrote the state in NATS, and this one can't continue
// it.
var ErrState = errors.New("state of another release")

// marked adds the state version to the streams' metadata.
func marked(all []jetstream.StreamConfig) []jetstream.StreamConfig {
	for i := range all {
		all[i].Metadata = withState(all[i].Metadata)
	}
	return all
}

func withState(metadata map[string]string) map[string]string {
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	metadata[stateKey] = strconv.Itoa(StateVersion)
	return metadata
}

// StateFault returns an ErrState if this release can't continue a stream.
func StateFault(cfg jetstream.StreamConfig) error {
	text, has := cfg.Metadata[stateKey]
	if !has {
		return nil
	}
	version, err := strconv.Atoi(text)
	switch {
	case err == nil && version >= oldestState && version <= StateVersion:
		return nil
	case err == nil && version < oldestState:
		return fmt.Errorf("%w: stream %s has version %d, and this release continues %d to %d: run a release between the two first, which takes it over (docs/upgrades.md)", ErrState, cfg.Name, version, oldestState, StateVersion)
	default:
		return fmt.Errorf("%w: stream %s has version %.10q, and this release reads %d at the most: run the release that wrote it or a later one, or restore a backup that this one made (docs/upgrades.md)", ErrState, cfg.Name, text, StateVersion)
	}
}

// checkPause is the pause between two attempts to look at the state.
const checkPause = time.Second

// CheckState checks the state in NATS as soon as that is reachable. It returns an ErrState if
// this release can't continue it, and logs streams that it does not read.
func (c *Conn) CheckState(ctx context.Context) error {
	select {
	case <-c.first:
	case <-ctx.Done():
		return nil
	}
	err := c.checkState(ctx)
	for ; retried(err); err = c.checkState(ctx) {
		if pause.For(ctx, checkPause) != nil {
			break
		}
	}
	if errors.Is(err, ErrState) {
		return err
	}
	return nil
}

// retried reports whether another attempt may succeed. Refusals are logged and counted
// elsewhere.
func retried(err error) bool {
	return err != nil && !errors.Is(err, ErrState) && !errors.Is(err, ErrRefused)
}

func (c *Conn) checkState(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, directWithin)
	defer cancel()
	return c.unlessRefused(ctx, func(ctx context.Context) error {
		left, fault, err := leftover(ctx, c.JetStream())
		if err := errors.Join(fault, err); err != nil {
			return err
		}
		for _, info := range left {
			c.log.Warn("state of another release is not read: run the release that wrote it until it has expired, or remove the stream (nats stream rm)",
				slog.String("stream", info.Config.Name), slog.Uint64("records", info.State.Msgs))
		}
		return nil
	}, c.API("STREAM.LIST"))
}
