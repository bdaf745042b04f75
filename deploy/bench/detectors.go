package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// fleets are the numbers of detectors that are compared.
var fleets = []int{1, 2, 4}

// manyCallers is how many callers share the detectors.
const manyCallers = 100

// detectors measures checks of many callers with several detectors on this machine, each
// number of them with a NATS server of its own.
func (b *bench) detectors(ctx context.Context) error {
	var contenders []measure.Contender
	for _, n := range fleets {
		one, err := b.fleet(ctx, n)
		if err != nil {
			return err
		}
		contenders = append(contenders, one)
	}
	res, err := measure.Compare(ctx, b.plan, contenders...)
	if err != nil {
		return err
	}
	b.print(res.Table(contenders[0].Name, []measure.Figure{measure.Rate, measure.P50, measure.P99}), "checks of %d callers, with several detectors", manyCallers)
	return nil
}

// fleet starts a NATS server, detectors as processes, and a gateway that asks them.
func (b *bench) fleet(ctx context.Context, n int) (c measure.Contender, err error) {
	in := &instance{}
	if err := b.startNATS(ctx, &b.group, unloop{}, in, "nats"); err != nil {
		return c, err
	}
	var launched []error
	for range n {
		launched = append(launched, b.launch(ctx, &b.group, unloop{}, in, "detector", "--nats", in.nats))
	}
	if err := errors.Join(launched...); err != nil {
		return c, err
	}
	nc, err := natskit.Connect(in.nats, "bench", logErrors())
	if err != nil {
		return c, err
	}
	b.add(func() error { nc.Close(); return nil })
	gw, err := b.group.gateway(ctx, nc, nil)
	return byCallers(fmt.Sprint("detectors: ", n), gw), err
}

// byCallers checks prompts of many callers through a gateway.
func byCallers(name string, gw *gateway.Gateway) measure.Contender {
	return measure.Contender{Name: name, Caller: func(round, caller int) (measure.Op, func(), error) {
		draw := rand.New(rand.NewPCG(uint64(round), uint64(caller)))
		return func(ctx context.Context) error {
			of := draw.IntN(manyCallers)
			check, hash := promptCheck(round, of*keys+draw.IntN(keys)), fingerprintOf(of, 0)
			check.Identity.Caller = hex.EncodeToString(hash[:16])
			_, err := gw.Check(ctx, check)
			return err
		}, func() {}, nil
	}}
}
