package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/deploy/bench/roles"
	"github.com/unloop/unloop/deploy/bench/usage"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

const (
	// fillBatch is the number of checks in a message, as many as a gateway sends, and
	// fillers the number of messages at once.
	fillBatch = 64
	fillers   = 16
	// fillRound keeps these fingerprints apart from those of other parts.
	fillRound = 1 << 20
	mebi      = 1 << 20
)

// millions counts many fingerprints and reports their memory and disk, and the time of a
// restart.
func (b *bench) millions(ctx context.Context) (err error) {
	dir, err := b.store()
	if err != nil {
		return err
	}
	b.title("state: %d live fingerprints, counted in batches of %d (file storage)", b.state, fillBatch)
	if err := b.fill(ctx, dir); err != nil {
		return err
	}
	// Each restart ends its server as the title of the next one says.
	if err := b.restart(ctx, dir, "restart after a clean stop", (*roles.Process).Kill); err != nil {
		return err
	}
	return b.restart(ctx, dir, "restart after SIGKILL", (*roles.Process).Stop)
}

// fill counts each fingerprint once on a server that it then stops.
func (b *bench) fill(ctx context.Context, dir string) (err error) {
	server, det, err := startPair(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, det.Stop(), server.Stop()) }()
	nc, err := natskit.Connect(server.Addr, "bench", b.log)
	if err != nil {
		return err
	}
	defer nc.Close()
	before := usage.Memory(server.PID())
	started := time.Now()
	if err := countAll(ctx, nc.NATS(), b.state); err != nil {
		return err
	}
	took := time.Since(started)
	fmt.Fprintf(b.out, "counted in %s: %.0f/s\n", took.Round(10*time.Millisecond), float64(b.state)/took.Seconds())
	fmt.Fprintf(b.out, "memory of the server (resident): %d MiB before, %d MiB after; of the detector: %d MiB\n",
		before/mebi, usage.Memory(server.PID())/mebi, usage.Memory(det.PID())/mebi)
	fmt.Fprintf(b.out, "disk: %d MiB\n", diskUse(dir)/mebi)
	return nil
}

func startPair(ctx context.Context, dir string) (server, det *roles.Process, err error) {
	if server, err = roles.Start(ctx, "nats", dir); err != nil {
		return nil, nil, err
	}
	if det, err = roles.Start(ctx, "detector", server.Addr); err != nil {
		return nil, nil, errors.Join(err, server.Stop())
	}
	return server, det, nil
}

// restart starts a server on the store of the last one, checks that the counts are there,
// and ends the server in the given way.
func (b *bench) restart(ctx context.Context, dir, what string, end func(*roles.Process) error) error {
	started := time.Now()
	server, det, err := startPair(ctx, dir)
	if err != nil {
		return err
	}
	count, err := b.count(ctx, server.Addr, longCheck(b.state/2))
	if err == nil {
		fmt.Fprintf(b.out, "%s: %s until a check is answered, with count %d of a fingerprint counted before\n",
			what, time.Since(started).Round(10*time.Millisecond), count)
	}
	return errors.Join(err, det.Stop(), end(server))
}

// count asks a detector about one check and returns the count of its fingerprint.
func (b *bench) count(ctx context.Context, url string, check *checkpb.Check) (uint32, error) {
	nc, err := natskit.Connect(url, "bench", b.log)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	decisions, err := ask(ctx, nc.NATS(), check)
	if err != nil {
		return 0, err
	}
	if len(decisions[0].GetHitCounts()) == 0 {
		return 0, errUncounted
	}
	return decisions[0].GetHitCounts()[0], nil
}

// errUncounted says that a detector did not decide a check.
var errUncounted = errors.New("check not counted")

func countAll(ctx context.Context, nc *nats.Conn, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range fillers {
		all.Go(func() {
			for ctx.Err() == nil {
				from := int(next.Add(fillBatch)) - fillBatch
				if from >= n {
					return
				}
				err := countSome(ctx, nc, from, min(from+fillBatch, n))
				if errors.Is(err, errUncounted) { // the server paused; once more
					err = countSome(ctx, nc, from, min(from+fillBatch, n))
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

func countSome(ctx context.Context, nc *nats.Conn, from, to int) error {
	checks := make([]*checkpb.Check, 0, to-from)
	for i := from; i < to; i++ {
		checks = append(checks, longCheck(i))
	}
	_, err := ask(ctx, nc, checks...)
	return err
}

// ask sends checks to a detector in one message and returns its decisions, or an error
// if it could not decide one of them.
func ask(ctx context.Context, nc *nats.Conn, checks ...*checkpb.Check) ([]*checkpb.Decision, error) {
	body, err := proto.Marshal(&checkpb.CheckBatch{BudgetMs: uint32(patience.Milliseconds()), Checks: checks})
	if err != nil {
		return nil, fmt.Errorf("encode checks: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, schemas.SubjectCheck, body)
	if err != nil {
		return nil, fmt.Errorf("ask detector: %w", err)
	}
	var out checkpb.DecisionBatch
	if err := proto.Unmarshal(msg.Data, &out); err != nil || len(out.GetDecisions()) != len(checks) {
		return nil, fmt.Errorf("read decisions: %d of %d: %w", len(out.GetDecisions()), len(checks), err)
	}
	for _, d := range out.GetDecisions() {
		if d.GetError() != "" {
			return nil, fmt.Errorf("%w: %q", errUncounted, d.GetError())
		}
	}
	return out.GetDecisions(), nil
}

// longCheck returns a check with a counter that outlives the benchmark.
func longCheck(i int) *checkpb.Check {
	c := promptCheck(fillRound, i)
	c.Counters[0].WindowSeconds = 3600
	return c
}

// diskUse returns the size of all files in a folder, in bytes.
func diskUse(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // files come and go while the server runs
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
