package natskit_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// State of releases before the first mark is marked, and that of a later release is refused
// wherever it is met.
func TestStateOfALaterReleaseIsRefused(t *testing.T) {
	t.Parallel()
	conn := roomy(t, 0)
	js, layout := conn.JetStream(), natskit.Layout{Memory: true}.Everything()
	if _, err := natskit.Prepare(t.Context(), js, layout); err != nil {
		t.Fatal(err)
	}
	mark := func(version string) {
		t.Helper()
		stream, err := js.Stream(t.Context(), schemas.StreamEvents)
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		if cfg.Metadata["unloop.state"] != "1" {
			t.Errorf("the stream is marked %v", cfg.Metadata)
		}
		cfg.Metadata = map[string]string{}
		if version != "" {
			cfg.Metadata["unloop.state"] = version
		}
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	mark("")
	if err := conn.CheckState(t.Context()); err != nil {
		t.Errorf("without a mark: %v", err)
	}
	if _, err := natskit.Prepare(t.Context(), js, layout); err != nil {
		t.Fatal(err)
	}
	mark("2")
	_, prepared := natskit.Prepare(t.Context(), js, layout)
	for who, err := range map[string]error{"check": conn.CheckState(t.Context()), "init": prepared, "service": conn.EnsureStreams(t.Context(), layout)} {
		if !errors.Is(err, natskit.ErrState) || !strings.Contains(err.Error(), `stream LOOP_EVENTS has version "2", and this release reads 1 at the most`) {
			t.Errorf("%s: %v", who, err)
		}
	}
}

// What is no number of a release is refused.
func TestAMarkThatIsNoNumberIsRefused(t *testing.T) {
	t.Parallel()
	for mark, fault := range map[string]bool{"1": false, "2": true, "0": true, "x": true, "": true} {
		err := natskit.StateFault(jetstream.StreamConfig{Name: "S", Metadata: map[string]string{"unloop.state": mark}})
		if errors.Is(err, natskit.ErrState) != fault {
			t.Errorf("%q: %v", mark, err)
		}
	}
}
