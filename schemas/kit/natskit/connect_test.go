package natskit_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas/kit/natskit"
)

// A test that waits for its timeout, and fails, shows a Flush that waits for a
// server that is gone.
func TestFlushWaitsForNoServerThatIsGone(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	server, err := natskit.StartEmbedded(natskit.EmbeddedConfig{Listen: "127.0.0.1:0", DataDir: t.TempDir()}, log)
	if err != nil {
		t.Fatal(err)
	}
	lost := make(chan struct{})
	nc, err := natskit.Connect(server.URL(), "test", log, nats.DisconnectErrHandler(func(*nats.Conn, error) { close(lost) }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	natskit.Flush(nc, time.Hour)
	server.Stop()
	<-lost
	natskit.Flush(nc, time.Hour)
}
