package main

import (
	"slices"
	"testing"
)

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
