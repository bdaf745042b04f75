package chaos

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/kit/pause"
)

// followEvery is how often a balancer asks whether gateways are ready.
const followEvery = 100 * time.Millisecond

// balancer sends requests to the gateways that say that they are ready, as load balancers
// do: it asks them from time to time, and does not try again.
type balancer struct {
	check   func(*process) bool
	stop    context.CancelFunc
	mu      sync.Mutex
	targets []*target
}

// target is a gateway. Until it was asked it counts as ready.
type target struct {
	*process
	unready bool
}

func newBalancer(ready func(*process) bool) *balancer {
	ctx, cancel := context.WithCancel(context.Background())
	b := &balancer{check: ready, stop: cancel}
	go func() {
		for pause.For(ctx, followEvery) == nil {
			b.follow()
		}
	}()
	return b
}

// add adds a gateway that is ready.
func (b *balancer) add(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = append(b.targets, &target{process: p})
}

// remove removes a gateway that has ended.
func (b *balancer) remove(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = slices.DeleteFunc(slices.Clone(b.targets), func(t *target) bool { return t.process == p })
}

func (b *balancer) follow() {
	b.mu.Lock()
	targets := b.targets
	b.mu.Unlock()
	for _, t := range targets {
		ready := b.check(t.process)
		b.mu.Lock()
		t.unready = !ready
		b.mu.Unlock()
	}
}

// pick returns the address of one of the gateways that are ready; if none is, of any.
func (b *balancer) pick(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	ready := slices.DeleteFunc(slices.Clone(b.targets), func(t *target) bool { return t.unready })
	if len(ready) == 0 {
		ready = b.targets
	}
	return ready[n%len(ready)].url()
}

// healthz returns the addresses at which the gateways say that they live.
func (b *balancer) healthz() (urls []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.targets {
		urls = append(urls, "http://"+t.admin+"/healthz")
	}
	return urls
}

// url is a gateway's address for clients.
func (p *process) url() string { return "http://" + p.args[p.listen()] }

// listen is the place of a gateway's address in its arguments.
func (p *process) listen() int { return slices.Index(p.args, "--listen") + 1 }

// Requests go to the gateways that are ready, in turn, and somewhere if none is.
func TestABalancerFollowsReadiness(t *testing.T) {
	t.Parallel()
	unready := map[*process]bool{}
	b := newBalancer(func(p *process) bool { return !unready[p] })
	b.stop() // the test asks
	one, two := &process{args: []string{"--listen", "one"}}, &process{args: []string{"gateway", "--listen", "two"}}
	picked := func() (all []string) {
		b.follow()
		for n := range 3 {
			all = append(all, b.pick(n))
		}
		return all
	}
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"one gateway", func() { b.add(one) }, []string{"http://one", "http://one", "http://one"}},
		{"two", func() { b.add(two) }, []string{"http://one", "http://two", "http://one"}},
		{"the first is not ready", func() { unready[one] = true }, []string{"http://two", "http://two", "http://two"}},
		{"none is", func() { unready[two] = true }, []string{"http://one", "http://two", "http://one"}},
		{"the first has ended", func() { b.remove(one) }, []string{"http://two", "http://two", "http://two"}},
	} {
		step.do()
		if got := picked(); !slices.Equal(got, step.want) {
			t.Errorf("%s: %v, want %v", step.name, got, step.want)
		}
	}
}
