package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// fleets are the numbers of detectors that are compared.
var fleets = []int{1, 2, 4}

// detectors measures checks with several detectors on this machine, each number of them with
// a NATS server of its own.
func (b *bench) detectors(ctx context.Context) error {
	var contenders []measure.Contender
	for _, n := range fleets {
		one, err := b.fleet(ctx, n)
		if err != nil {
			return err
		}
		contenders = append(contenders, one)
	}
	return b.compareRates(ctx, fmt.Sprintf("checks of %d callers, with several detectors", manyCallers), contenders...)
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
	b.closing(nc.Close)
	gw, err := b.group.gateway(ctx, nc, nil)
	return checks(fmt.Sprint("detectors: ", n), gw), err
}
