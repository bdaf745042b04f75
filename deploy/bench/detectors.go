package main

import (
	"context"
	"fmt"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// detectors measures checks with several detectors on this machine, each number of them with
// a NATS server of its own.
func (b *bench) detectors(ctx context.Context) error {
	var contenders []measure.Contender
	for _, n := range []int{1, 2, 4} {
		gw, _, err := b.fleet(ctx, n)
		if err != nil {
			return err
		}
		contenders = append(contenders, checks(fmt.Sprint("detectors: ", n), gw))
	}
	return b.compareRates(ctx, fmt.Sprintf("checks of %d callers, with several detectors", manyCallers), contenders...)
}

// fleet starts a NATS server, n detectors as processes, and a gateway in this process that
// asks them. It returns the URL of the server, too.
func (b *bench) fleet(ctx context.Context, n int) (*gateway.Gateway, string, error) {
	in := &instance{}
	if err := b.startNATS(ctx, unloop{}, in, "nats"); err != nil {
		return nil, "", err
	}
	for range n {
		if err := b.launch(ctx, unloop{}, in, "detector", "--nats", in.nats); err != nil {
			return nil, "", err
		}
	}
	nc, err := natskit.Connect(in.nats, "bench", logErrors())
	if err != nil {
		return nil, "", err
	}
	b.closing(nc.Close)
	gw, err := b.gateway(ctx, nc, nil)
	return gw, in.nats, err
}
