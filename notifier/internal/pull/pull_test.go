package pull

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits that only a fault makes long.
const patience = 20 * time.Second

// running is an intake on a server, whose messages arrive in got.
type running struct {
	*Intake
	ready *service.Readiness
	got   chan string
	stop  func()
}

// start runs an intake until stop, or until the test ends.
func start(t *testing.T, js jetstream.JetStream, cfg Config) *running {
	t.Helper()
	nc, err := natskit.Connect(js.Conn().ConnectedUrl(), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return startOn(t, nc, cfg)
}

// startOn is start on a connection.
func startOn(t *testing.T, nc *natskit.Conn, cfg Config) *running {
	t.Helper()
	r := &running{ready: &service.Readiness{}, got: make(chan string, 1000)}
	handle := func(ctx context.Context, msg jetstream.Msg) {
		if err := msg.DoubleAck(ctx); err != nil && ctx.Err() == nil { // the test may be over
			t.Errorf("acknowledge: %v", err)
		}
		r.got <- string(msg.Data())
	}
	cfg.State = r.ready.Set
	r.Intake = New(nc, cfg, handle, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func (r *running) waitReady(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.ready.Wait(ctx); err != nil {
		t.Fatalf("not ready: %v", err)
	}
}

func (r *running) waitUnready(t *testing.T) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for r.ready.Err() == nil {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("ready all the time")
		}
	}
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing arrived")
		panic("unreachable")
	}
}

func publish(t *testing.T, js jetstream.JetStream, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		if _, err := js.Publish(t.Context(), "loop.detected._.p", []byte(body)); err != nil {
			t.Fatalf("publish %s: %v", body, err)
		}
	}
}

func consumerInfo(t *testing.T, js jetstream.JetStream) *jetstream.ConsumerInfo {
	t.Helper()
	consumer, err := js.Consumer(t.Context(), schemas.StreamEvents, consumerName)
	if err != nil {
		t.Fatal(err)
	}
	return consumer.CachedInfo()
}

const consumerName = "notifier-hook"

var ordinary = Config{Endpoint: "hook", Since: time.Hour, State: func(error) {}, Missed: func(uint64) {}}

func TestBeginsAnewWhenTheConsumerIsDeleted(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream()
	r := start(t, js, ordinary)
	r.waitReady(t)
	publish(t, js, "before")
	receive(t, r.got)
	if err := js.DeleteConsumer(t.Context(), schemas.StreamEvents, consumerName); err != nil {
		t.Fatal(err)
	}
	r.waitUnready(t)
	publish(t, js, "after")
	// The new consumer reaches back, and brings what was before once more.
	if got := receive(t, r.got); got == "before" {
		got = receive(t, r.got)
		if got != "after" {
			t.Errorf("got %q", got)
		}
	}
}

func TestBeginsAnewWhenTheStreamIsDeleted(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream()
	r := start(t, js, ordinary)
	r.waitReady(t)
	if err := js.DeleteStream(t.Context(), schemas.StreamEvents); err != nil {
		t.Fatal(err)
	}
	r.waitUnready(t)
	r.waitReady(t)
	publish(t, js, "after")
	if got := receive(t, r.got); got != "after" {
		t.Errorf("got %q", got)
	}
}

func TestWaitsForAServerThatComesLaterAndReturns(t *testing.T) {
	t.Parallel()
	dir, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	server := func(listen string) *natskit.Embedded {
		e, err := natskit.StartEmbedded(natskit.EmbeddedConfig{Listen: listen, DataDir: dir}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	addr := natstest.FreeAddr(t)
	first := server(addr)
	url := first.URL()
	first.Stop()
	nc, err := natskit.Connect(url, "test", quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	r := startOn(t, nc, ordinary)
	for _, body := range []string{"first", "second"} {
		e := server(addr)
		r.waitReady(t)
		publish(t, nc.JetStream(), body)
		if got := receive(t, r.got); got != body {
			t.Errorf("got %q, want %q", got, body)
		}
		e.Stop()
		r.waitUnready(t)
	}
}

func TestEndsAtOnceWithoutAServer(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	nc, err := natskit.Connect("nats://127.0.0.1:1", "test", quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	r := startOn(t, nc, ordinary)
	ended := make(chan struct{})
	go func() {
		r.stop()
		close(ended)
	}()
	receive(t, ended)
}

func TestSeveralStartTogetherOnOneConsumer(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	all := make([]*running, 4)
	for i := range all {
		all[i] = start(t, server.JetStream(), ordinary)
	}
	for _, r := range all {
		r.waitReady(t)
	}
	if info := consumerInfo(t, server.JetStream()); info.Config.MaxAckPending != 1 || info.Config.AckWait != ackWait {
		t.Errorf("consumer is %+v", info.Config)
	}
}

func TestAConsumerIsLeftAsItsOperatorMadeIt(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream()
	if _, err := js.CreateConsumer(t.Context(), schemas.StreamEvents, jetstream.ConsumerConfig{
		Durable: consumerName, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 7,
	}); err != nil {
		t.Fatal(err)
	}
	start(t, js, ordinary).waitReady(t)
	if got := consumerInfo(t, js).Config.MaxAckPending; got != 7 {
		t.Errorf("MaxAckPending became %d", got)
	}
}

func TestAnUnfitStreamIsAnError(t *testing.T) {
	t.Parallel()
	server := natstest.StartBare(t)
	js := server.JetStream()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: schemas.StreamEvents, Subjects: []string{"loop.detected.>"},
	}); err != nil {
		t.Fatal(err)
	}
	in := New(server.Service(), ordinary, nil, slog.New(slog.DiscardHandler))
	if err := in.Run(t.Context()); err == nil || !strings.Contains(err.Error(), schemas.StreamEvents+" must take the subjects loop.ongoing.> loop.resolved.>, too") {
		t.Errorf("got %v, want the subjects that the stream lacks", err)
	}
}

func TestAMessageThatArrivesAsPullingEndsGoesBackAtOnce(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	js := server.JetStream()
	in := New(server.Service(), ordinary, nil, slog.New(slog.DiscardHandler))
	msgs, err := in.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// This leaves a pull request behind that nobody waits for.
	if _, err := msgs.Next(jetstream.NextMaxWait(10 * time.Millisecond)); !errors.Is(err, nats.ErrTimeout) {
		t.Fatalf("got %v, want a timeout", err)
	}
	publish(t, js, "late")
	deadline := time.After(patience)
	for consumerInfo(t, js).NumAckPending == 0 {
		select {
		case <-deadline:
			t.Fatal("the message was not sent")
		default:
		}
	}
	handBack(msgs)
	consumer, err := in.consumer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	msg, err := consumer.Next(jetstream.FetchMaxWait(patience))
	if err != nil || string(msg.Data()) != "late" {
		t.Errorf("got %v, %v", msg, err)
	}
}

func TestAFirstStartBeginsWhereItIsTold(t *testing.T) {
	t.Parallel()
	for since, want := range map[time.Duration]string{0: "new", -1: "long ago", time.Hour: "long ago"} {
		js := natstest.Start(t).JetStream()
		publish(t, js, "long ago")
		cfg := ordinary
		cfg.Since = since
		r := start(t, js, cfg)
		r.waitReady(t)
		publish(t, js, "new")
		if got := receive(t, r.got); got != want {
			t.Errorf("since %s: got %q, want %q", since, got, want)
		}
	}
}

func TestOneEventIsHandedOutAtATimeAndMissedOnesAreCounted(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	js := server.JetStream()
	publish(t, js, "1", "2", "3", "4", "5")
	cfg, missed := ordinary, uint64(0)
	cfg.Missed = func(n uint64) { missed += n }
	in := New(server.Service(), cfg, nil, slog.New(slog.DiscardHandler))
	consumer, err := in.consumer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, err := consumer.Next()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := consumer.Next(jetstream.FetchMaxWait(20 * time.Millisecond)); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("a second event was handed out: %v", err)
	}
	if err := first.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(4)); err != nil {
		t.Fatal(err)
	}
	info, err := consumer.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	info.AckFloor.Stream = 1 // a purge moves it along, the stream's bounds do not
	if err := in.countMissed(t.Context(), info); err != nil || missed != 2 {
		t.Errorf("%d missed, %v", missed, err)
	}
}
