package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/kit/pause"
)

const (
	// edgeClients are the callers that send at once.
	edgeClients = 16
	// betweenKills is the pause between two kills of a process.
	betweenKills = 2 * time.Second
)

// edges has callers send one prompt exactly as often as the policy lets it through, each
// with a key of its own, while detectors and the NATS server are killed in turn. None may be
// stopped: nothing counts twice.
func (c *cluster) edges(ctx context.Context, callers int, out io.Writer) error {
	killing, stop := context.WithCancel(ctx)
	defer stop()
	var kills int
	var fault error
	var killer, clients sync.WaitGroup
	killer.Go(func() { kills, fault = c.killInTurn(killing) })
	var next, undecided, failed, stopped atomic.Int64
	var example atomic.Pointer[error]
	for range edgeClients {
		clients.Go(func() {
			for n := next.Add(1); n <= int64(callers) && ctx.Err() == nil; n = next.Add(1) {
				for i := range passes {
					a := c.sendAs(ctx, c.balancer.pick(i), fmt.Sprint("sk-edge-", n), fmt.Sprint("the prompt of edge caller ", n))
					switch {
					case a.rejected:
						stopped.Add(1)
					case a.err != nil:
						failed.Add(1)
						example.Store(&a.err)
					case a.degraded:
						undecided.Add(1)
					}
				}
			}
		})
	}
	clients.Wait()
	stop()
	killer.Wait()
	fmt.Fprintf(out, "%d callers at the edge, %d kills: %d requests stopped, %d of %d without a decision, %d client errors\n",
		callers, kills, stopped.Load(), undecided.Load(), callers*passes, failed.Load())
	switch {
	case fault != nil:
		return fmt.Errorf("kill processes in turn: %w", fault)
	case stopped.Load() > 0:
		return fmt.Errorf("%w: %d requests of callers at the edge were stopped", errGoal, stopped.Load())
	case failed.Load() > 0:
		return fmt.Errorf("%w: %d client errors, such as %w", errGoal, failed.Load(), *example.Load())
	case kills == 0:
		return errors.New("nothing was killed")
	case !c.exactAfter(ctx, &tally{loops: map[string]bool{}}):
		return fmt.Errorf("%w: a loop was not stopped at its threshold afterwards", errGoal)
	}
	return nil
}

// killInTurn kills and restarts detectors and servers until the context ends.
func (c *cluster) killInTurn(ctx context.Context) (kills int, err error) {
	victims := append(append([]*process{}, c.detectors...), c.servers...)
	for ; ctx.Err() == nil; _ = pause.For(ctx, betweenKills) {
		victim := victims[kills%len(victims)]
		victim.kill()
		kills++
		if err := c.run(context.WithoutCancel(ctx), victim); err != nil {
			return kills, err
		}
	}
	return kills, nil
}

// Callers that send exactly as often as they may are never stopped, whatever is killed.
func TestCallersAtTheEdgeAreNotStopped(t *testing.T) {
	c := startForTest(t)
	var said strings.Builder
	if err := c.edges(t.Context(), 300, &said); err != nil {
		t.Errorf("%v\n%s", err, said.String())
	}
}
