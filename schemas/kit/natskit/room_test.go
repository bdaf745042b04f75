package natskit_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// A server that has little room gets streams without bounds of their own; one that has none
// is said to have none, with what to do, until it has some.
func TestAServerWithoutRoomIsSaidToHaveNone(t *testing.T) {
	t.Parallel()
	const room = 1 << 20 // less than any stream reserves
	srv := serveAs(t, &server.Options{JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: room})
	conn := connectAs(t, natskit.Settings{}, srv.ClientURL())
	awaitUp(t, conn)
	js := conn.JetStream()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "other", Subjects: []string{"other"}, MaxBytes: room}); err != nil {
		t.Fatal(err)
	}
	stream := natskit.BucketStream(schemas.BucketLimits)
	layout := natskit.Layout{}.Of([]string{stream})
	_, err := natskit.Prepare(t.Context(), js, layout)
	if !errors.Is(err, natskit.ErrNoRoom) || !strings.Contains(err.Error(), stream) || !strings.Contains(err.Error(), "max_file_store") {
		t.Errorf("without room: %v; want %v", err, natskit.ErrNoRoom)
	}
	go conn.Tend(t.Context(), layout)
	until(t, "a readiness that says so", func() bool { return errors.Is(conn.Ready(), natskit.ErrNoRoom) })
	if err := js.DeleteStream(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	until(t, "readiness", func() bool { return conn.Ready() == nil })
	info, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.CachedInfo().Config.MaxBytes; got > 0 {
		t.Errorf("with little room the stream has a bound of %d bytes", got)
	}
}
