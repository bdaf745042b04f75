package backup_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/backup"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/partition"
)

// filled returns a server with records of several kinds: with a history, with a TTL, large
// ones, and a consumer that has read the first of two events.
func filled(t *testing.T) jetstream.JetStream {
	t.Helper()
	js := natstest.Start(t).JetStream()
	for _, bundle := range []string{"first", "second"} {
		put(t, js, schemas.BucketPolicies, schemas.KeyBundle, []byte(bundle), "")
	}
	put(t, js, schemas.BucketBlocks, "prompt.live.p.x", []byte("stands"), "3600s")
	put(t, js, schemas.BucketCounters, "prompt.live.p.x", bytes.Repeat([]byte("counts "), 100_000), "3600s") // several parts
	for _, subject := range []string{"loop.detected._.p", "loop.resolved._.p"} {
		if _, err := js.Publish(t.Context(), subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	read(t, js, "loop.detected._.p")
	return js
}

func put(t *testing.T, js jetstream.JetStream, bucket, key string, value []byte, ttl string) {
	t.Helper()
	msg := &nats.Msg{Subject: "$KV." + bucket + "." + key, Data: value}
	if ttl != "" {
		msg.Header = nats.Header{jetstream.MsgTTLHeader: {ttl}}
	}
	if _, err := js.PublishMsg(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
}

// read takes the next event for a durable consumer.
func read(t *testing.T, js jetstream.JetStream, want string) {
	t.Helper()
	c, err := js.CreateOrUpdateConsumer(t.Context(), schemas.StreamEvents, jetstream.ConsumerConfig{Durable: "reader", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	msg, err := c.Next()
	if err != nil || msg.Subject() != want {
		t.Fatalf("read %v, %v, want %s", msg, err, want)
	}
	if err := msg.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, js jetstream.JetStream) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "backup.zip")
	if _, err := backup.Create(t.Context(), js, file); err != nil {
		t.Fatal(err)
	}
	return file
}

func open(t *testing.T, file string) *backup.Archive {
	t.Helper()
	a, err := backup.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// All comes back as it was: revisions, history, TTLs and what consumers have read.
func TestAnotherServerGetsWhatWasBackedUp(t *testing.T) {
	t.Parallel()
	from := filled(t)
	file := create(t, from)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	to := natstest.StartBare(t).JetStream()
	done, err := open(t, file).Restore(t.Context(), to, backup.Options{})
	if err != nil || len(done) != len(natskit.Layout{}.Streams()) {
		t.Fatalf("restored %v, %v", done, err)
	}
	for _, name := range (natskit.Layout{}).Streams() {
		sameStream(t, from, to, name)
	}
	read(t, to, "loop.resolved._.p")
	put(t, to, schemas.BucketPolicies, schemas.KeyBundle, []byte("third"), "")
	kv, err := to.KeyValue(t.Context(), schemas.BucketPolicies)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := kv.History(t.Context(), schemas.KeyBundle); err != nil || len(all) != 3 || string(all[1].Value()) != "second" {
		t.Errorf("the bundle's history is %v, %v", all, err)
	}
}

// sameStream compares the configuration and each message of a stream on two servers.
func sameStream(t *testing.T, a, b jetstream.JetStream, name string) {
	t.Helper()
	one, errOne := a.Stream(t.Context(), name)
	two, errTwo := b.Stream(t.Context(), name)
	if err := errors.Join(errOne, errTwo); err != nil {
		t.Fatal(err)
	}
	if was, is := encode(t, one.CachedInfo().Config), encode(t, two.CachedInfo().Config); was != is {
		t.Errorf("%s is configured\n%s, was\n%s", name, is, was)
	}
	state := one.CachedInfo().State
	for seq := state.FirstSeq; seq > 0 && seq <= state.LastSeq; seq++ {
		was, errWas := one.GetMsg(t.Context(), seq)
		is, errIs := two.GetMsg(t.Context(), seq)
		if errWas != nil || errIs != nil || encode(t, was) != encode(t, is) {
			t.Errorf("%s: message %d differs: %v, %v", name, seq, errWas, errIs)
		}
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Records are replaced on demand alone, and then wholly.
func TestRecordsAreReplacedOnDemandAlone(t *testing.T) {
	t.Parallel()
	js := filled(t)
	a := open(t, create(t, js))
	put(t, js, schemas.BucketPolicies, schemas.KeyBundle, []byte("later"), "")
	if done, err := a.Restore(t.Context(), js, backup.Options{}); !errors.Is(err, backup.ErrLive) || len(done) > 0 {
		t.Fatalf("restored %v, %v", done, err)
	}
	if got := bundle(t, js); got != "later" {
		t.Errorf("after the refusal the bundle is %q", got)
	}
	if _, err := a.Restore(t.Context(), js, backup.Options{Force: true, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	if got := bundle(t, js); got != "second" {
		t.Errorf("after the restore the bundle is %q", got)
	}
}

func bundle(t *testing.T, js jetstream.JetStream) string {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), schemas.BucketPolicies)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := kv.Get(t.Context(), schemas.KeyBundle)
	if err != nil {
		t.Fatal(err)
	}
	return string(entry.Value())
}

// Records whose time is over do not come back.
func TestWhatExpiredMeanwhileStaysAway(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream()
	put(t, js, schemas.BucketBlocks, "prompt.live.p.short", []byte("stood"), "1s")
	put(t, js, schemas.BucketBlocks, "prompt.live.p.long", []byte("stands"), "3600s")
	a := open(t, create(t, js))
	to := natstest.StartBare(t).JetStream()
	expire(t, js, "prompt.live.p.short")
	if _, err := a.Restore(t.Context(), to, backup.Options{}); err != nil {
		t.Fatal(err)
	}
	expire(t, to, "prompt.live.p.short")
	kv, err := to.KeyValue(t.Context(), schemas.BucketBlocks)
	if err != nil {
		t.Fatal(err)
	}
	if entry, err := kv.Get(t.Context(), "prompt.live.p.long"); err != nil || string(entry.Value()) != "stands" {
		t.Errorf("the other record is %v, %v", entry, err)
	}
}

// expire waits until a block is gone.
func expire(t *testing.T, js jetstream.JetStream, key string) {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), schemas.BucketBlocks)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for err == nil && ctx.Err() == nil {
		_, err = kv.Get(ctx, key)
	}
	if !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Fatalf("%s does not expire: %v", key, err)
	}
}

// No part of a file is enough, and no changed byte goes unnoticed.
func TestDamagedBackupsAreRefusedBeforeAnythingIsChanged(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(create(t, filled(t)))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content []byte
		want    error
	}{
		"cut off":             {whole[:len(whole)*9/10], backup.ErrNoBackup},
		"empty":               {nil, backup.ErrNoBackup},
		"another file":        {[]byte("bundle_version: 1\n"), backup.ErrNoBackup},
		"another archive":     {edit(t, whole, "manifest.json", nil), backup.ErrNoBackup},
		"a changed byte":      {flip(whole, "KV_LOOP_COUNTERS.snapshot"), backup.ErrDamaged},
		"a stream of another": {edit(t, whole, "KV_LOOP_BLOCKS.snapshot", func(b []byte) []byte { return b[:len(b)-1] }), backup.ErrDamaged},
		"a stream missing":    {edit(t, whole, "KV_LOOP_BLOCKS.snapshot", nil), backup.ErrDamaged},
		"an unreadable list":  {edit(t, whole, "manifest.json", func(b []byte) []byte { return b[:len(b)/2] }), backup.ErrDamaged},
		"an empty list":       {edit(t, whole, "manifest.json", func([]byte) []byte { return []byte("{}") }), backup.ErrNoBackup},
		"a newer format": {edit(t, whole, "manifest.json", func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"format": 1`), []byte(`"format": 2`), 1)
		}), backup.ErrNewer},
	} {
		file := filepath.Join(t.TempDir(), "backup.zip")
		if err := os.WriteFile(file, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := backup.Open(file); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := backup.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// flip changes a byte in the middle of an entry.
func flip(whole []byte, entry string) []byte {
	changed := bytes.Clone(whole)
	changed[bytes.Index(changed, []byte(entry))+len(entry)+500] ^= 1
	return changed
}

// edit changes one entry of an archive; without a change it leaves the entry out.
func edit(t *testing.T, whole []byte, entry string, change func([]byte) []byte) []byte {
	t.Helper()
	in, err := zip.NewReader(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, f := range in.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if f.Name == entry && change == nil {
			continue
		}
		if f.Name == entry {
			content = change(content)
		}
		w, errCreate := archive.Create(f.Name)
		if err := errors.Join(err, errCreate); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A backup that fails leaves no file.
func TestABackupThatFailsLeavesNoFile(t *testing.T) {
	t.Parallel()
	inMemory, err := natskit.StartEmbedded(natskit.EmbeddedConfig{Listen: "127.0.0.1:0", DataDir: natskit.InMemory}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inMemory.Stop)
	nc, err := natskit.Connect(inMemory.URL(), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if err := nc.EnsureStreams(t.Context(), inMemory.Layout()); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	full := natstest.Start(t).JetStream()
	for name, c := range map[string]struct {
		ctx  context.Context
		js   jetstream.JetStream
		want error
	}{
		"a server without streams": {t.Context(), natstest.StartBare(t).JetStream(), backup.ErrNothing},
		"a server in memory":       {t.Context(), nc.JetStream(), backup.ErrInMemory},
		"interrupted":              {over, full, context.Canceled},
	} {
		dir := t.TempDir()
		if _, err := backup.Create(c.ctx, c.js, filepath.Join(dir, "backup.zip")); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s leaves %v, %v", name, left, err)
		}
	}
	file := create(t, full)
	if _, err := backup.Create(t.Context(), full, file); !errors.Is(err, backup.ErrExists) {
		t.Errorf("over a file: %v", err)
	}
	if _, err := backup.Create(t.Context(), full, filepath.Join(file, "none", "x.zip")); err == nil {
		t.Error("a folder that does not exist is no error")
	}
}

// during is a server that does something before it is asked for a stream.
type during struct {
	jetstream.JetStream
	stream string
	act    func()
}

func (d during) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if name == d.stream {
		d.act()
	}
	return d.JetStream.Stream(ctx, name)
}

// A backup that is made while records move to new partitions has each of them: restored, the
// growth goes on to its end.
func TestABackupDuringAGrowthIsWhole(t *testing.T) {
	t.Parallel()
	const records = 100
	js := natstest.Start(t).JetStream()
	for i := range records {
		for _, bucket := range []string{schemas.BucketCounters, schemas.BucketSessions} {
			put(t, js, bucket, fmt.Sprint("live.", i), []byte("x"), "3600s")
		}
	}
	growth := natskit.Growth{JS: js, Layout: natskit.Layout{Partitions: 4}.Everything()}
	if _, err := natskit.Prepare(t.Context(), js, growth.Layout); err != nil {
		t.Fatal(err)
	}
	_, err := growth.Begin(t.Context())
	var scheme partition.Scheme
	if err == nil {
		scheme, err = growth.Proceed(t.Context(), partition.Moving)
	}
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup.zip")
	sweep := func() {
		if _, err := growth.Sweep(t.Context(), scheme); err != nil {
			t.Error(err)
		}
	}
	if _, err := backup.Create(t.Context(), during{js, "KV_LOOP_COUNTERS_1", sweep}, file); err != nil {
		t.Fatal(err)
	}
	to := natstest.StartBare(t).JetStream()
	if _, err := open(t, file).Restore(t.Context(), to, backup.Options{}); err != nil {
		t.Fatal(err)
	}
	growth.JS = to
	if _, err := growth.Sweep(t.Context(), scheme); err != nil {
		t.Fatal(err)
	}
	for i := range records {
		for _, bucket := range []string{schemas.BucketCounters, schemas.BucketSessions} {
			key := fmt.Sprint("live.", i)
			place := scheme.Place(bucket, key)
			stream, err := to.Stream(t.Context(), natskit.BucketStream(place))
			if err != nil {
				t.Fatal(err)
			}
			if msg, err := stream.GetLastMsgForSubject(t.Context(), "$KV."+place+"."+key); err != nil || string(msg.Data) != "x" {
				t.Errorf("%s is not in %s: %v", key, place, err)
			}
		}
	}
}

// A growth that begins during a backup adds streams that the backup does not have.
func TestABackupThatAGrowthOvertakesIsRefused(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream()
	grow := func() {
		growth := natskit.Growth{JS: js, Layout: natskit.Layout{Partitions: 2}.Everything()}
		if _, err := natskit.Prepare(t.Context(), js, growth.Layout); err != nil {
			t.Error(err)
		}
		if _, err := growth.Begin(t.Context()); err != nil {
			t.Error(err)
		}
	}
	file := filepath.Join(t.TempDir(), "backup.zip")
	if _, err := backup.Create(t.Context(), during{js, schemas.StreamEvents, grow}, file); !errors.Is(err, backup.ErrGrew) {
		t.Errorf("error %v, want %v", err, backup.ErrGrew)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the refused backup is there: %v", err)
	}
}
