package e2e

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/backup"
	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/audit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/silences"
	"github.com/unloop/unloop/schemas/match"
	"github.com/unloop/unloop/schemas/silence"
)

// After the loss of all of NATS, a backup brings back what counts: a block stands, a count
// goes on, and what operators set is there.
func TestABackupBringsCountsAndBlocksBack(t *testing.T) {
	t.Parallel()
	now := &clock{}
	upstream := echo(t)
	before, stop := startStoppable(t, upstream, now.set)
	refused, counted, similar := prompt("blocked before the loss"), prompt("counted before the loss"), prompt("please list the files in this folder")
	statuses(t, before.URL(), refused, 6)
	statuses(t, before.URL(), counted, 3)
	send(t, before.URL(), similar.with("X-Session-ID", "s"))
	js := asService(t, connect(t, before)).JetStream()
	operate(t, js)
	blocked := prompt("anything").with("X-Tenant-ID", "acme")
	override(t, before, schemas.Override{Action: schemas.OverrideBlock, Scope: schemas.ScopeTenant, Value: "acme"}, func() bool { return send(t, before.URL(), blocked).status == 403 })
	file := filepath.Join(t.TempDir(), "backup.zip")
	if _, err := backup.Create(t.Context(), js, file); err != nil {
		t.Fatal(err)
	}
	loop := openLoop(t, before)
	stop()

	server := natstest.StartBare(t)
	archive, err := backup.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = archive.Close() })
	if _, err := archive.Restore(t.Context(), server.JetStream(), backup.Options{}); err != nil {
		t.Fatal(err)
	}
	after := start(t, upstream, now.set, func(cfg *system.Config) { cfg.NATS = server.URL() })
	if got := statuses(t, after.URL(), refused, 1); got[0] == 200 {
		t.Error("the block does not stand")
	}
	if got := openLoop(t, after); got != loop {
		t.Errorf("the open loop is %s, was %s", got, loop)
	}
	if got := statuses(t, after.URL(), counted, 3); !slices.Equal(got, ok(2, 429)) {
		t.Errorf("the count goes on with %v, want two that pass", got)
	}
	if got := send(t, after.URL(), blocked); got.status != 403 {
		t.Errorf("a blocked tenant gets %d", got.status)
	}
	wantOperated(t, server.JetStream())
}

// operate does what operators do.
func operate(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	matchers, err := match.Parse([]string{"tenant=acme"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if _, err := silences.Add(t.Context(), js, silence.Silence{Matchers: matchers, Author: "ada", Start: now, End: now.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if err := audit.Record(t.Context(), js, schemas.Audit{Actor: "ada", Action: schemas.AuditSilence, Target: "acme", Via: "cli"}); err != nil {
		t.Fatal(err)
	}
}

func wantOperated(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	if all, err := silences.List(t.Context(), js); err != nil || len(all) != 1 || all[0].Author != "ada" {
		t.Errorf("silences are %v, %v", all, err)
	}
	if all, err := audit.List(t.Context(), js, 10); err != nil || len(all) != 1 || all[0].Target != "acme" {
		t.Errorf("the audit is %v, %v", all, err)
	}
	stream, err := js.Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.GetLastMsgForSubject(t.Context(), string(event.Detected)+".>"); err != nil {
		t.Errorf("the event of the loop: %v", err)
	}
	vectors, err := js.KeyValue(t.Context(), schemas.BucketVectors)
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := vectors.Keys(t.Context()); err != nil || len(keys) == 0 {
		t.Errorf("the histories of texts: %v, %v", keys, err)
	}
}
