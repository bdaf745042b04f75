package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/unloop/unloop/deploy/bench/measure"
)

// Names of the contenders.
const (
	nameUpstream = "upstream alone"
	nameProxy    = "bare httputil.ReverseProxy"
	nameExact    = "Unloop, exact detectors"
	nameUnloop   = "Unloop, default policy"
	nameRefuser  = "bare Go handler, 429"
	nameBlocked  = "Unloop, blocked loops"
)

// patient are flags with which a pause of the machine does not count as a failure.
var patient = []string{"--check-timeout", patience.String()}

// always429 has loops refused with 429 however often they come. Versions without that
// setting, which always do so, ignore the variable.
const always429 = "UNLOOP_REJECT=429"

// loops is the number of different loops that are blocked.
const loops = 16

// gateway compares unique prompts through Unloop, with and without semantic detection,
// with the same prompts through a bare proxy.
func (b *bench) gateway(ctx context.Context) error {
	upstream, what, err := b.startUpstream(ctx, &b.started)
	if err != nil {
		return err
	}
	proxy, err := startProxy(ctx, upstream, &b.started)
	if err != nil {
		return err
	}
	exact, err := b.startUp(ctx, unloop{policies: exactPolicies, flags: patient}, upstream, &b.started)
	if err != nil {
		return err
	}
	whole, err := b.startUp(ctx, unloop{flags: patient}, upstream, &b.started)
	if err != nil {
		return err
	}
	var number atomic.Int64
	unique := func(int) string { return prompt(number.Add(1)) }
	res, err := measure.Compare(ctx, b.plan,
		httpContender(nameUpstream, upstream, http.StatusOK, unique),
		httpContender(nameProxy, proxy.url, http.StatusOK, unique),
		httpContender(nameExact, exact.url, http.StatusOK, unique),
		httpContender(nameUnloop, whole.url, http.StatusOK, unique))
	if err != nil {
		return err
	}
	b.title("gateway: unique prompts of 250 bytes, upstream %s, all of Unloop in one process", what)
	b.printRates(res)
	for _, name := range []string{nameExact, nameUnloop} {
		measure.PrintTargets(b.out,
			res.AddsAtMost(name+": adds at most 1.5 times what the bare proxy adds (p50)", name, nameProxy, nameUpstream, 1.5, levels...),
			aheadOfFairvisor(res, name))
	}
	return nil
}

// exactPolicies are the default policy without semantic detection.
var exactPolicies = bundle(1, func(int) string { return "/v1/" })

func aheadOfFairvisor(res *measure.Results, name string) measure.Target {
	return measure.Target{
		Text: name + ": ahead of Fairvisor on the machine of docs/benchmarks.md (3.2k, 10.6k, 9.5k/s)", Levels: levels, Unit: "k/s",
		Figure: func(level int) (float64, bool) {
			rate := res.Median(name, level).PerSecond / 1000
			return rate, rate > fairvisor[level]
		},
	}
}

// fairvisor are the rates of Fairvisor with loop detection, in thousands a second,
// measured once on the machine of docs/benchmarks.md.
var fairvisor = map[int]float64{1: 3.2, 8: 10.6, 64: 9.5}

// blocked compares refusals of blocked loops with those of a handler that refuses
// everything.
func (b *bench) blocked(ctx context.Context) error {
	upstream, _, err := b.startUpstream(ctx, &b.started)
	if err != nil {
		return err
	}
	refuser, err := b.started.role(ctx, "refuser")
	if err != nil {
		return err
	}
	looping := func(caller int) string { // of a user each, whose workload it is not
		return strings.Replace(prompt(int64(caller%loops)), "{", fmt.Sprintf(`{"user":"loop-%d",`, caller%loops), 1)
	}
	contenders := []measure.Contender{httpContender(nameRefuser, refuser.Addr, http.StatusTooManyRequests, looping)}
	for _, rival := range b.rivals() {
		ours, err := b.startUp(ctx, unloop{binary: rival.binary, flags: patient}, upstream, &b.started)
		if err != nil {
			return err
		}
		if err := untilBlocked(ctx, ours.url, looping); err != nil {
			return err
		}
		contenders = append(contenders, httpContender(nameBlocked+rival.suffix, ours.url, http.StatusTooManyRequests, looping))
	}
	res, err := measure.Compare(ctx, b.plan, contenders...)
	if err != nil {
		return err
	}
	b.title("blocked loops: %d loops, all answers 429", loops)
	b.printRates(res)
	measure.PrintTargets(b.out, res.AtLeast("at 0.8 or more of the bare handler's rate", nameBlocked, nameRefuser, 0.8, levels...))
	return nil
}

// untilBlocked sends every loop until it is blocked.
func untilBlocked(ctx context.Context, url string, body func(caller int) string) error {
	for i := range loops {
		conn, err := dial(url)
		if err != nil {
			return err
		}
		var got reply
		for range 20 {
			if got, err = conn.post(ctx, shortKey, []byte(body(i))); err != nil || got.status == http.StatusTooManyRequests {
				break
			}
		}
		conn.close()
		if err != nil || got.status != http.StatusTooManyRequests {
			return fmt.Errorf("loop %d was not blocked: status %d: %w", i, got.status, err)
		}
	}
	return nil
}
