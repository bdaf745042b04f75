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

// roomy runs a server with so much room for streams, and connects to it; 0 is all of the disk.
func roomy(t *testing.T, room int64) *natskit.Conn {
	t.Helper()
	srv := serveAs(t, &server.Options{JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: room})
	conn := connectAs(t, natskit.Settings{}, srv.ClientURL())
	awaitUp(t, conn)
	return conn
}

// bounds returns the bounds of all streams of a server, by name.
func bounds(t *testing.T, js jetstream.JetStream) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	list := js.ListStreams(t.Context())
	for info := range list.Info() {
		all[info.Config.Name] = info.Config.MaxBytes
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// Each stream gets its share of the room that the server has, and none is without a bound.
func TestBoundsAreSharesOfTheRoom(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		room       int64
		partitions int
		least      float64 // share of its usual bound that each stream has
	}{
		"64 GB":                {64 << 30, 1, 1},
		"2 GB":                 {2 << 30, 1, 1},
		"1 GB":                 {1 << 30, 1, 0.5},
		"128 MB":               {128 << 20, 1, 1.0 / 16},
		"2 GB, 4 partitions":   {2 << 30, 4, 7.0 / 16},
		"512 MB, 4 partitions": {512 << 20, 4, 1.0 / 16},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			layout := natskit.Layout{Partitions: tt.partitions}.Everything()
			js := roomy(t, tt.room).JetStream()
			if _, err := natskit.Prepare(t.Context(), js, layout); err != nil {
				t.Fatal(err)
			}
			got, sum := bounds(t, js), int64(0)
			for _, cfg := range layout.Configs() {
				bound := got[cfg.Name]
				if bound < int64(tt.least*float64(cfg.MaxBytes)) || bound > cfg.MaxBytes {
					t.Errorf("%s has a bound of %d bytes; want at least %.2f of %d", cfg.Name, bound, tt.least, cfg.MaxBytes)
				}
				sum += bound
			}
			if tt.room > 0 && sum > tt.room {
				t.Errorf("all have %d bytes of %d", sum, tt.room)
			}
		})
	}
}

// A stream that is created alone leaves the others their shares: services start one by one.
func TestAServiceLeavesRoomForTheOthers(t *testing.T) {
	t.Parallel()
	conn := roomy(t, 1<<30)
	for _, cfg := range (natskit.Layout{}).Everything().Configs() {
		if err := conn.EnsureStreams(t.Context(), natskit.Layout{}.Of([]string{cfg.Name})); err != nil {
			t.Fatal(err)
		}
		if bound := bounds(t, conn.JetStream())[cfg.Name]; bound < cfg.MaxBytes/2 {
			t.Errorf("%s got %d bytes of %d", cfg.Name, bound, cfg.MaxBytes)
		}
	}
}

// A process that dies between asking for the room of all and giving it back takes it from
// nobody.
func TestRoomThatWasOnlyAskedForIsGivenBack(t *testing.T) {
	t.Parallel()
	js := roomy(t, 2<<30).JetStream()
	layout := natskit.Layout{}.Everything()
	first, sum := layout.Configs()[0], int64(0)
	for _, cfg := range layout.Configs() {
		sum += cfg.MaxBytes
	}
	usual := first.MaxBytes
	first.MaxBytes = sum
	if _, err := js.CreateStream(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if _, err := natskit.Prepare(t.Context(), js, layout); err != nil {
		t.Fatal(err)
	}
	if got := bounds(t, js); len(got) != len(layout.Configs()) || got[first.Name] != usual {
		t.Errorf("%d streams, and %d bytes of the first, want %d", len(got), got[first.Name], usual)
	}
}

// A server with too little room is refused with the room that is wanted, and nothing is
// created without a bound. Services become ready once there is room.
func TestTooLittleRoomIsRefused(t *testing.T) {
	t.Parallel()
	conn := roomy(t, 24<<20)
	js := conn.JetStream()
	_, err := natskit.Prepare(t.Context(), js, natskit.Layout{}.Everything())
	if !errors.Is(err, natskit.ErrNoRoom) || !strings.Contains(err.Error(), "max_file_store") || !strings.Contains(err.Error(), "need 98 MiB") {
		t.Errorf("without room: %v; want %v", err, natskit.ErrNoRoom)
	}
	if all := bounds(t, js); len(all) > 0 {
		t.Errorf("created %v", all)
	}
	conn = roomy(t, 128<<20)
	js = conn.JetStream()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "other", Subjects: []string{"other"}, MaxBytes: 100 << 20}); err != nil {
		t.Fatal(err)
	}
	go conn.Tend(t.Context(), natskit.Layout{}.Of([]string{natskit.BucketStream(schemas.BucketLimits)}))
	until(t, "a readiness that says so", func() bool { return errors.Is(conn.Ready(), natskit.ErrNoRoom) })
	if err := js.DeleteStream(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	until(t, "readiness", func() bool { return conn.Ready() == nil })
}

// Partitions that there is no room for are refused with the room that is wanted, and nobody
// takes them for partitions.
func TestTooLittleRoomForPartitionsIsRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before int
		want   string
	}{
		"at the start": {0, "need 266 MiB"},
		"of a growth":  {1, "need 153 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js := roomy(t, 128<<20).JetStream()
			growth := natskit.Growth{JS: js, Layout: natskit.Layout{Partitions: tt.before}.Everything()}
			if tt.before > 0 {
				if _, err := growth.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			growth.Layout.Partitions = 4
			_, err := growth.Run(t.Context())
			if !errors.Is(err, natskit.ErrNoRoom) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("4 partitions: %v; want %v with %q", err, natskit.ErrNoRoom, tt.want)
			}
			if s, _, err := natskit.ReadPartitions(t.Context(), js); err != nil || s.Count != 1 {
				t.Errorf("after the refusal: %+v, %v", s, err)
			}
			for name, bound := range bounds(t, js) {
				if bound <= 0 {
					t.Errorf("%s has no bound", name)
				}
			}
		})
	}
}
