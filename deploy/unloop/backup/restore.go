package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	// ErrLive means that a restore would replace records.
	ErrLive = errors.New("the server has records that a restore would replace")
	// errOther means that the server did not restore what was backed up.
	errOther = errors.New("restored stream differs from the backup")
	// errUsed means that services recreate a stream whenever it is deleted.
	errUsed = errors.New("running services create the stream again; stop them")
)

// attempts bounds the tries to delete and restore a stream: running services may recreate it
// in between.
const attempts = 10

// Options say how a backup is restored.
type Options struct {
	// Force replaces streams that have records.
	Force bool
	// Replicas of each stream; 0 leaves them as they were.
	Replicas int
}

// Restored is the result for one stream.
type Restored struct {
	Name string
	// Records is the number of records in the stream now, Expired the number of records in
	// the backup whose TTL was over.
	Records, Expired uint64
}

// Restore replaces streams on the server with those of the backup, and returns the streams
// that were restored, also with an error. Streams that are not in the backup stay as they are.
func (a *Archive) Restore(ctx context.Context, js jetstream.JetStream, opts Options) (done []Restored, err error) {
	if !opts.Force {
		if err := a.unused(ctx, js); err != nil {
			return nil, err
		}
	}
	for i := range a.Manifest.Streams {
		s := &a.Manifest.Streams[i]
		state, err := a.replace(ctx, js, s, opts)
		if err != nil {
			return done, fmt.Errorf("restore %s: %w", s.Name, err)
		}
		if state.LastSeq != s.State.LastSeq || state.Messages > s.State.Messages {
			return done, fmt.Errorf("%w: %s has %d messages up to %d, the backup %d up to %d", errOther, s.Name, state.Messages, state.LastSeq, s.State.Messages, s.State.LastSeq)
		}
		done = append(done, Restored{s.Name, state.Messages, s.State.Messages - state.Messages})
	}
	return done, nil
}

// unused returns ErrLive if one of the streams has records.
func (a *Archive) unused(ctx context.Context, js jetstream.JetStream) error {
	var live []string
	for i := range a.Manifest.Streams {
		name := a.Manifest.Streams[i].Name
		stream, err := js.Stream(ctx, name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
		case err != nil:
			return fmt.Errorf("look for %s: %w", name, err)
		case stream.CachedInfo().State.Msgs > 0:
			live = append(live, fmt.Sprintf("%s has %d", name, stream.CachedInfo().State.Msgs))
		}
	}
	if live != nil {
		return fmt.Errorf("%w: %s", ErrLive, strings.Join(live, ", "))
	}
	return nil
}

// replace deletes a stream, if it exists, and restores it.
func (a *Archive) replace(ctx context.Context, js jetstream.JetStream, s *Stream, opts Options) (State, error) {
	config, err := s.configured(opts)
	if err != nil {
		return State{}, err
	}
	for range attempts {
		if err := js.DeleteStream(ctx, s.Name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return State{}, fmt.Errorf("delete what is there: %w", err)
		}
		state, err := a.send(ctx, js, s, config)
		if !taken(ctx, js, s.Name, err) {
			return state, explain(err)
		}
	}
	return State{}, errUsed
}

// taken reports whether a restore failed because another stream of the name was created
// meanwhile.
func taken(ctx context.Context, js jetstream.JetStream, name string, err error) bool {
	if _, refused := errors.AsType[*jetstream.APIError](err); !refused && !errors.Is(err, nats.ErrNoResponders) {
		return false
	}
	_, err = js.Stream(ctx, name)
	return err == nil
}

// explain adds a remedy to an error of the server.
func explain(err error) error {
	if err != nil && strings.Contains(err.Error(), codeClustered) {
		return fmt.Errorf("%w; say --replicas 1 to restore on a single server", err)
	}
	return err
}

func (a *Archive) send(ctx context.Context, js jetstream.JetStream, s *Stream, config any) (State, error) {
	in, err := a.open(s)
	if err != nil {
		return State{}, err
	}
	defer func() { _ = in.Close() }() // it was only read from
	return s.restore(ctx, server{js}, config, in)
}

// configured returns the configuration of the restored stream.
func (s *Stream) configured(opts Options) (map[string]json.RawMessage, error) {
	var config map[string]json.RawMessage
	if err := json.Unmarshal(s.Config, &config); err != nil {
		return nil, fmt.Errorf("%w: configuration of %s: %w", ErrDamaged, s.Name, err)
	}
	if opts.Replicas > 0 {
		config["num_replicas"] = json.RawMessage(fmt.Sprint(opts.Replicas))
	}
	return config, nil
}
