package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/roles"
	"github.com/unloop/unloop/deploy/bench/usage"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/pause"
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

// repeatedHits is a threshold that no fingerprint reaches.
const repeatedHits = 50

// keys fills a NATS server and a detector with live fingerprints, measures checks each
// time there are ten times as many, and then memory, disk and restarts.
func (b *bench) keys(ctx context.Context, t *scaleTable) error {
	if b.mostKeys < leastKeys {
		return nil
	}
	dir, err := b.store()
	if err != nil {
		return err
	}
	notes, err := b.fill(ctx, dir, t)
	if err != nil {
		return err
	}
	// Each restart ends its server as the title of the next one says.
	for _, restart := range []struct {
		what string
		end  func(*roles.Process) error
	}{{"restart after a clean stop", (*roles.Process).Kill}, {"restart after SIGKILL", (*roles.Process).Stop}} {
		note, err := b.restart(ctx, dir, restart.end)
		if err != nil {
			return err
		}
		notes.Add(restart.what, note)
	}
	t.notes = notes
	return nil
}

// leastKeys is the first number of live fingerprints at which checks are measured.
const leastKeys = 1000

// fill counts each fingerprint once on a server that it then stops, and measures checks
// on the way. It returns a table of what the fingerprints take.
func (b *bench) fill(ctx context.Context, dir string, t *scaleTable) (notes *measure.Table, err error) {
	server, det, err := startPair(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, det.Stop(), server.Stop()) }()
	conn, err := natskit.Connect(server.Addr, "bench", b.log)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	before := usage.Memory(server.PID())
	l := &live{nc: conn.NATS(), in: &instance{processes: []*roles.Process{server, det}}}
	var took time.Duration
	var after int64 // before checks load blocks of its files into its memory
	for n := leastKeys; n <= b.mostKeys; n *= 10 {
		started := time.Now()
		if err := countAll(ctx, l.nc, l.keys, n); err != nil {
			return nil, err
		}
		took += time.Since(started)
		l.keys, after = n, usage.Memory(server.PID())
		if err := b.checks(ctx, l, t); err != nil {
			return nil, err
		}
	}
	notes = &measure.Table{Head: []string{fmt.Sprintf("%s live fingerprints", measure.Grouped(float64(l.keys))), ""}}
	notes.Add(fmt.Sprintf("counted through a detector, in batches of %d", fillBatch),
		fmt.Sprintf("%s, %s/s", took.Round(10*time.Millisecond), measure.Grouped(float64(l.keys)/took.Seconds())))
	notes.Add("memory of the NATS server before and after", fmt.Sprintf("%d MiB, %d MiB", before/mebi, after/mebi))
	// By then, an idle server has collected garbage, and dropped its index of blocks that
	// nobody used.
	if err := pause.For(ctx, b.idle); err != nil {
		return nil, err
	}
	notes.Add(fmt.Sprintf("memory of the NATS server %s later", b.idle), fmt.Sprintf("%d MiB", usage.Memory(server.PID())/mebi))
	notes.Add("memory of the detector", fmt.Sprintf("%d MiB", usage.Memory(det.PID())/mebi))
	notes.Add("disk", fmt.Sprintf("%d MiB", diskUse(dir)/mebi))
	return notes, nil
}

// live are the fingerprints that are live, and where they are.
type live struct {
	nc    *nats.Conn
	in    *instance
	keys  int
	added atomic.Int64 // fingerprints beyond those that were counted
}

// checks measures checks of new and of live fingerprints.
func (b *bench) checks(ctx context.Context, l *live, t *scaleTable) error {
	const newName, liveName = "check of a new fingerprint, by live ones", "check of a live fingerprint, by live ones"
	asks := func(name string, draw func() int) measure.Contender {
		return measure.Contender{Name: name, Meter: l.in.read, Caller: func(int, int) (measure.Op, func(), error) {
			return func(ctx context.Context) error {
				_, err := ask(ctx, l.nc, longCheck(draw()))
				return err
			}, func() {}, nil
		}}
	}
	plan := measure.Plan{Rounds: b.scaleRounds(), Calls: min(b.calls, leastKeys/2), Levels: []int{keysLevel}}
	res, err := measure.Compare(ctx, plan,
		asks(newName, func() int { return -int(l.added.Add(1)) }),
		asks(liveName, func() int { return rand.IntN(l.keys) }))
	if err != nil {
		return err
	}
	for _, name := range []string{newName, liveName} {
		t.add(name, measure.Grouped(float64(l.keys)), res.Median(name, keysLevel), 0)
	}
	return nil
}

// keysLevel is the number of checks in flight while they are measured.
const keysLevel = 8

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
func (b *bench) restart(ctx context.Context, dir string, end func(*roles.Process) error) (string, error) {
	started := time.Now()
	server, det, err := startPair(ctx, dir)
	if err != nil {
		return "", err
	}
	count, err := b.count(ctx, server.Addr, longCheck(b.mostKeys/2))
	note := fmt.Sprintf("%s until a check is answered, with count %d of a fingerprint counted before",
		time.Since(started).Round(10*time.Millisecond), count)
	return note, errors.Join(err, det.Stop(), end(server))
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

// countAll counts the fingerprints from one number up to another.
func countAll(ctx context.Context, nc *nats.Conn, first, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	next.Store(int64(first))
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

// longCheck returns a check with a counter that outlives the benchmark and is not blocked.
func longCheck(i int) *checkpb.Check {
	c := promptCheck(fillRound, i)
	c.Counters[0].WindowSeconds = 3600
	c.Counters[0].Threshold, c.Counters[0].Steps[0].At = repeatedHits, repeatedHits+1
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
