package natskit

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas"
)

// A full bucket is no fault of the server, which a restart would mend.
func TestAFullBucketIsNoFaultOfTheServer(t *testing.T) {
	t.Parallel()
	e := startWith(t, EmbeddedConfig{Listen: "127.0.0.1:0", DataDir: t.TempDir()})
	conn, err := e.Connect("test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := conn.EnsureStreams(t.Context(), e.Layout()); err != nil {
		t.Fatal(err)
	}
	name := BucketStream(schemas.BucketNotifications)
	stream, err := conn.JetStream().Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.MaxBytes = 1
	if _, err := conn.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if err := tryWrite(t.Context(), conn.JetStream(), name); !IsFull(err) {
		t.Errorf("a write to the full bucket: %v", err)
	}
	if err := e.broken(t.Context(), conn, probed); err != nil {
		t.Errorf("the server is taken for broken: %v", err)
	}
	cfg.MaxBytes, cfg.MaxMsgSize = -1, 1
	if _, err := conn.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if err := e.broken(t.Context(), conn, probed); err == nil {
		t.Error("a bucket that takes no writes for another reason is not seen")
	}
}

// A refused write of this process has its server looked at before the next look is due.
func TestARefusedWriteHasTheServerLookedAt(t *testing.T) {
	t.Parallel()
	e := startWith(t, EmbeddedConfig{DataDir: InMemory})
	conn, err := e.Connect("test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	conn.Wrote(BucketStream(schemas.BucketLimits), nil)
	if len(e.suspect) != 0 {
		t.Error("a write that succeeded is suspicious")
	}
	for range 2 { // of which one is enough
		conn.Wrote(BucketStream(schemas.BucketLimits), context.DeadlineExceeded)
	}
	began := time.Now()
	if due, err := e.untilLook(t.Context(), false); err != nil || !due || time.Since(began) >= guardIdle {
		t.Errorf("looked at after %s, due %t, %v", time.Since(began), due, err)
	}
}

// A server that answers late where every goroutine waits for a processor is not restarted
// at once: that would take all its connections away, and make no processor free.
func TestLateAnswersOfAStarvedServerAreNoFaultOfItsDisk(t *testing.T) {
	t.Parallel()
	late := fmt.Errorf("KV_LOOP_LIMITS: %w", context.DeadlineExceeded)
	for _, c := range []struct {
		fault   error
		starved bool
		looks   int
	}{
		{late, true, guardLooksLate},
		{late, false, guardLooks},
		{errDisabled, true, guardLooks},
	} {
		if n := looksFor(c.fault, c.starved); n != c.looks {
			t.Errorf("%v, starved %t: %d looks, want %d", c.fault, c.starved, n, c.looks)
		}
	}
}
