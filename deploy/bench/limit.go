package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/pause"
)

// The token bucket that is overloaded.
const (
	limitDetectors = 3
	limitClients   = 8
	limitRate      = 100.0 // requests a second that the rule lets through
	limitOverload  = 4     // times as many are sent
	limitWarmUp    = 2 * time.Second
	limitTime      = 10 * time.Second
)

var errNoVerdict = errors.New("a detector's answer has no verdict of the rule")

// limit measures one rule that several clients and detectors share.
func (b *bench) limit(ctx context.Context) error {
	server, err := b.server(&b.started)
	if err != nil {
		return err
	}
	connect := func(name string) (*natskit.Conn, error) { return natskit.Connect(server.URL(), name, b.log) }
	for range limitDetectors {
		stop, err := startDetector(ctx, connect, nil, b.log)
		if err != nil {
			return err
		}
		b.started.add(stop)
	}
	passed, sent, err := flood(ctx, connect)
	if err != nil {
		return err
	}
	b.title("a token bucket of %.0f requests/s, %d detectors, %d clients that send %.0f/s", limitRate, limitDetectors, limitClients, limitRate*limitOverload)
	total := 0
	for _, n := range passed {
		total += n
	}
	rate := float64(total) / limitTime.Seconds()
	fmt.Fprintf(b.out, "sent %d and passed %d in %s: %.1f/s; clients passed %d to %d\n", sent, total, limitTime, rate, slices.Min(passed), slices.Max(passed))
	off := 100 * (rate/limitRate - 1)
	share := float64(slices.Min(passed)) * limitClients / float64(max(total, 1))
	measure.PrintTargets(b.out,
		measure.Target{Text: "rate within 2 % of the rule's", Levels: []int{limitClients}, Unit: " %", Figure: func(int) (float64, bool) { return off, off >= -2 && off <= 2 }},
		measure.Target{Text: "no client starved (least share ≥ half of an equal one)", Levels: []int{limitClients}, Unit: "×", Figure: func(int) (float64, bool) { return share, share >= 0.5 }},
	)
	return nil
}

// flood sends from all clients at their pace and returns how many requests of each
// were let through after the burst was used up.
func flood(ctx context.Context, connect func(string) (*natskit.Conn, error)) (passed []int, sent int, err error) {
	passed, tries := make([]int, limitClients), make([]int, limitClients)
	errs := make([]error, limitClients)
	began := time.Now()
	var clients sync.WaitGroup
	for i := range limitClients {
		clients.Go(func() { passed[i], tries[i], errs[i] = send(ctx, connect, began) })
	}
	clients.Wait()
	for _, n := range tries {
		sent += n
	}
	return passed, sent, errors.Join(errs...)
}

// send is one client. It does not wait for answers before it sends again. Its pauses
// are random (a Poisson process), as those of independent clients: with constant pauses
// the same client would always come first.
func send(ctx context.Context, connect func(string) (*natskit.Conn, error), began time.Time) (passed, sent int, err error) {
	nc, err := connect("client")
	if err != nil {
		return 0, 0, err
	}
	defer nc.Close()
	var mu sync.Mutex
	var asking sync.WaitGroup
	const mean = float64(time.Second) * limitClients / (limitRate * limitOverload)
	for at := time.Duration(0); at < limitWarmUp+limitTime; at = time.Since(began) {
		counts := at >= limitWarmUp
		asking.Go(func() {
			through, fault := askLimit(ctx, nc.NATS())
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, fault)
			if counts {
				sent++
			}
			if counts && through {
				passed++
			}
		})
		if err := pause.For(ctx, time.Duration(rand.ExpFloat64()*mean)); err != nil {
			return 0, 0, err
		}
	}
	asking.Wait()
	return passed, sent, err
}

func limitCheck() *checkpb.Check {
	key := sha256.Sum256([]byte("one rule for all"))
	return &checkpb.Check{Limits: []*checkpb.Limit{{
		Policy: "bench", Rule: "rate", Key: key[:], Cost: 1, Bucket: &checkpb.Bucket{Rate: limitRate, Capacity: limitRate},
	}}}
}

// askLimit reports whether a request is let through.
func askLimit(ctx context.Context, nc *nats.Conn) (bool, error) {
	decisions, err := ask(ctx, nc, limitCheck())
	if err != nil {
		return false, err
	}
	if len(decisions[0].GetLimits()) != 1 {
		return false, errNoVerdict
	}
	return decisions[0].GetLimits()[0].GetAction() == checkpb.Action_ACTION_ALLOW, nil
}
