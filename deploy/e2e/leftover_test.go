package e2e

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// awaited is a log in which a test waits for a line.
type awaited struct {
	mu    sync.Mutex
	text  bytes.Buffer
	grown chan struct{}
}

func (a *awaited) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, err := a.text.Write(p)
	close(a.grown)
	a.grown = make(chan struct{})
	return n, err
}

func (a *awaited) wait(t *testing.T, want string) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		a.mu.Lock()
		text, grown := a.text.String(), a.grown
		a.mu.Unlock()
		if strings.Contains(text, want) {
			return
		}
		select {
		case <-grown:
		case <-limit:
			t.Fatalf("no %q in the log:\n%s", want, text)
		}
	}
}

// A system that starts where another release has left its state says so.
func TestStateOfAnotherReleaseIsToldAtTheStart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	here := func(cfg *system.Config) { cfg.Embedded.DataDir = folder }
	before, stop := startStoppable(t, echo(t), here)
	nc, err := before.Connect()
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "LOOP_COUNTS_0"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	stop()
	log := &awaited{grown: make(chan struct{})}
	startLogging(t, slog.New(slog.NewTextHandler(log, nil)), echo(t), here)
	log.wait(t, `stream=KV_LOOP_COUNTS_0 records=1`)
}
