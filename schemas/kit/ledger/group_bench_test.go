package ledger

import (
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/unloop/unloop/schemas/kit/jsanswer"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// BenchmarkGroups compares writes that are ready together: each as a message of its own,
// with all acknowledgements awaited, and all as one atomic batch of JetStream. One
// operation is one record. docs/benchmarks.md has the figures, and what follows from them.
func BenchmarkGroups(b *testing.B) {
	for _, storage := range []jetstream.StorageType{jetstream.FileStorage, jetstream.MemoryStorage} {
		for _, way := range []string{"in-process", "tcp"} {
			g := newGroups(b, storage, way)
			for _, size := range []int{2, 4, 8, 16, 32, 64} {
				for _, writers := range []int{1, 4} {
					for name, write := range map[string]func(int, int) error{"single": g.single, "atomic": g.atomic} {
						b.Run(fmt.Sprintf("%s/%s/%d/writers=%d/%s", storage, way, size, writers, name), func(b *testing.B) { g.run(b, size, writers, write) })
					}
				}
			}
		}
	}
}

// groups writes new records to a bucket.
type groups struct {
	nc    *natskit.Conn
	inbox *natskit.Inbox
	next  atomic.Int64
}

func newGroups(b *testing.B, storage jetstream.StorageType, way string) *groups {
	b.Helper()
	server, err := natskit.StartEmbedded(natskit.EmbeddedConfig{Listen: "127.0.0.1:0", DataDir: b.TempDir()}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Stop)
	var nc *natskit.Conn
	if way == "tcp" {
		nc, err = natskit.Connect(server.URL(), "groups", slog.New(slog.DiscardHandler))
	} else {
		nc, err = server.Connect("groups", slog.New(slog.DiscardHandler))
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	_, err = nc.JetStream().CreateStream(b.Context(), jetstream.StreamConfig{
		Name: "KV_groups", Subjects: []string{"$KV.groups.>"}, MaxMsgsPerSubject: 1, AllowMsgTTL: true, AllowAtomicPublish: true,
		Storage: storage, DenyDelete: true, AllowRollup: true, AllowDirect: true,
	})
	if err != nil {
		b.Fatal(err)
	}
	return &groups{nc: nc, inbox: natskit.NewInbox(nc, 10*time.Second)}
}

// run writes b.N records in groups of a size, by several writers at once.
func (g *groups) run(b *testing.B, size, writers int, write func(from, size int) error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	before := processorTime()
	b.ResetTimer()
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for left.Add(-int64(size)) > -int64(size) {
				if err := write(int(g.next.Add(int64(size))), size); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
}

func processorTime() time.Duration {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// message is a new record as ledgers write it.
func (g *groups) message(i int) *nats.Msg {
	return &nats.Msg{Subject: "$KV.groups.live.prompt.default." + strconv.Itoa(i), Data: make([]byte, 200), Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {"0"}, jetstream.MsgTTLHeader: {"60s"},
	}}
}

func (g *groups) single(from, size int) error {
	answers := make(chan error, size)
	for i := range size {
		g.inbox.Request(g.message(from+i), func(answer []byte, err error) {
			if err == nil {
				_, err = jsanswer.Sequence(answer)
			}
			answers <- err
		})
	}
	for range size {
		if err := <-answers; err != nil {
			return err
		}
	}
	return nil
}

func (g *groups) atomic(from, size int) error {
	id := nuid.Next()
	answers := make(chan error, 1)
	for i := range size {
		m := g.message(from + i)
		m.Header["Nats-Batch-Id"], m.Header["Nats-Batch-Sequence"] = []string{id}, []string{strconv.Itoa(i + 1)}
		if i+1 < size {
			if err := g.nc.NATS().PublishMsg(m); err != nil {
				return err
			}
			continue
		}
		m.Header["Nats-Batch-Commit"] = []string{"1"}
		g.inbox.Request(m, func(answer []byte, err error) {
			if err == nil {
				_, err = jsanswer.Sequence(answer)
			}
			answers <- err
		})
	}
	return <-answers
}
