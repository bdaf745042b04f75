package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/roles"
	"github.com/unloop/unloop/deploy/bench/sizing"
	"github.com/unloop/unloop/deploy/bench/usage"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// fleets are the detectors of which the model predicts what they do. The first one is
// what it is calibrated with.
var fleets = []fleet{{1, 0}, {2, 0}, {1, boundShare}, {2, boundShare}, {4, boundShare}}

// boundShare is the share of a processor that bounded detectors have.
const boundShare = 0.15

// sizingLevels are the checks in flight, of which the first and the third calibrate.
var sizingLevels = []int{1, 8, 64, 256}

const calibrated = 64

// checkerMessages is how many messages of a gateway's checker are on their way at once.
const checkerMessages = 4

// sizing measures what each part takes, and compares a model made of that with what
// several detectors do.
func (b *bench) sizing(ctx context.Context) error {
	perWrite, err := b.writeTime(ctx)
	if err != nil {
		return err
	}
	return errors.Join(b.fleets(ctx, perWrite), b.needs(ctx, perWrite))
}

// fleet is a number of detectors, each with a share of a processor, or unbounded with 0.
type fleet struct {
	detectors int
	share     float64
}

func (f fleet) String() string {
	if f.share == 0 {
		return fmt.Sprintf("%d", f.detectors)
	}
	return fmt.Sprintf("%d with %.0f %% of a processor each", f.detectors, 100*f.share)
}

// Figures of the parts of a check, in ms.
const (
	figureGateway  = "gateway"
	figureNATS     = "nats"
	figureDetector = "detector"
)

// fleets measures checks over NATS to several detectors, and predicts them from those to
// one detector.
func (b *bench) fleets(ctx context.Context, perWrite float64) (err error) {
	var parts ender
	defer func() { err = errors.Join(err, parts.end()) }()
	var contenders []measure.Contender
	for _, f := range fleets {
		c, err := b.startFleet(ctx, f, &parts)
		if err != nil && f.share > 0 {
			fmt.Fprintf(b.out, "\nDetectors with a share of a processor are left out: %v\n", err)
			break
		}
		if err != nil {
			return err
		}
		contenders = append(contenders, c)
	}
	plan := b.plan
	plan.Levels = sizingLevels
	res, err := measure.Compare(ctx, plan, contenders...)
	if err != nil {
		return err
	}
	b.title("checks over NATS to several detectors, measured and predicted from one")
	return b.printFleets(res, perWrite, len(contenders))
}

// startFleet starts a NATS server and detectors as processes, and a gateway in this one.
func (b *bench) startFleet(ctx context.Context, f fleet, parts *ender) (c measure.Contender, err error) {
	dir, err := b.store()
	if err != nil {
		return c, err
	}
	server, err := parts.role(ctx, "nats", dir)
	if err != nil {
		return c, err
	}
	var detectors []*roles.Process
	for range f.detectors {
		p, err := parts.role(ctx, "detector", server.Addr)
		if err != nil {
			return c, err
		}
		detectors = append(detectors, p)
		if f.share > 0 {
			end, err := p.Share(f.share)
			if err != nil {
				return c, err
			}
			*parts = append((*parts)[:len(*parts)-1], end, p.Stop) // it stops before its group ends
		}
	}
	conn, err := natskit.Connect(server.Addr, "bench", b.log)
	if err != nil {
		return c, err
	}
	parts.add(func() error { conn.Close(); return nil })
	gw, stop, err := startGateway(ctx, conn, nil, b)
	if err != nil {
		return c, err
	}
	parts.add(stop)
	c = checkContender(f.String(), gw)
	c.Meter = func(context.Context) (measure.Reading, error) {
		return processorTimes(map[string][]int{figureGateway: {os.Getpid()}, figureNATS: {server.PID()}, figureDetector: pids(detectors)})
	}
	return c, nil
}

func pids(processes []*roles.Process) (out []int) {
	for _, p := range processes {
		out = append(out, p.PID())
	}
	return out
}

// processorTimes reads the processor time of processes in ms.
func processorTimes(of map[string][]int) (measure.Reading, error) {
	out := measure.Reading{}
	for name, pids := range of {
		for _, pid := range pids {
			took, err := usage.Processor(pid)
			if err != nil {
				return nil, err
			}
			out[name] += took.Seconds() * 1000
		}
	}
	return out, nil
}

// model returns the system of one detector, calibrated with its first and third level. The
// rate at the third also says how much of the machine's processors the parts get: the rest
// goes to the system, and to waits for one another.
func model(res *measure.Results, perWrite float64) (sizing.System, error) {
	name := fleets[0].String()
	few, many := res.Median(name, 1), res.Median(name, calibrated)
	s := sizing.System{Processors: float64(runtime.NumCPU()), Messages: checkerMessages, Largest: calibrated}
	s.Largest = s.Batch(calibrated)
	busy := 0.0
	for _, part := range []string{figureGateway, figureNATS, figureDetector} {
		each, message := sizing.Fit(
			sizing.Measured{Batch: 1, Time: few.Figures[part] / 1000},
			sizing.Measured{Batch: s.Largest, Time: many.Figures[part] / 1000})
		s.Parts = append(s.Parts, sizing.Part{Name: part, Each: each, Message: message})
		busy += each + message
	}
	s.Parts = append(s.Parts, sizing.Part{Name: "stream", Each: perWrite, Servers: 1, Within: true})
	s.Waiting = max(1/few.PerSecond-busy, 0)
	full, err := s.Predict(calibrated)
	s.Processors *= min(many.PerSecond/full.PerSecond, 1)
	return s, err
}

// with returns the system with other detectors, between which checks and the server's
// messages to them are spread.
func with(s sizing.System, f fleet) sizing.System {
	s.Parts = slices.Clone(s.Parts)
	for i := range s.Parts {
		part := &s.Parts[i]
		if part.Name == figureDetector {
			part.Servers = f.share * float64(f.detectors)
		}
		if part.Name == figureDetector || part.Name == figureNATS {
			part.Spread = float64(f.detectors)
		}
	}
	return s
}

func (b *bench) printFleets(res *measure.Results, perWrite float64, measured int) error {
	t := &measure.Table{Head: []string{"detectors", "in flight", "checks/s", "predicted", "error", "what is used most, predicted"}}
	base, err := model(res, perWrite)
	if err != nil {
		return err
	}
	var worst, sum, n float64
	for i, f := range fleets[:measured] {
		for _, level := range sizingLevels {
			s := with(base, f)
			p, err := s.Predict(level)
			if err != nil {
				return err
			}
			rate := res.Median(f.String(), level).PerSecond
			off := 100 * (p.PerSecond/rate - 1)
			told := fmt.Sprintf("%+.0f %%", off)
			if i == 0 && (level == 1 || level == calibrated) {
				told += " (calibrated)"
			} else {
				worst, sum, n = max(worst, math.Abs(off)), sum+math.Abs(off), n+1
			}
			t.Add(f.String(), fmt.Sprint(level), measure.Grouped(rate), measure.Grouped(p.PerSecond), told, fmt.Sprintf("%s, %.0f %%", p.Busiest, 100*p.Use))
		}
	}
	b.print(t)
	fmt.Fprintf(b.out, "The prediction is off by %.0f %% on average and by %.0f %% at most, where it was not calibrated.\n\n", sum/max(n, 1), worst)
	each := &measure.Table{Head: []string{"part", "processor µs of each check", "and of each message"}}
	for _, p := range base.Parts {
		each.Add(p.Name, fmt.Sprintf("%.1f", 1e6*p.Each), fmt.Sprintf("%.1f", 1e6*p.Message))
	}
	b.print(each)
	return b.printGrowth(base)
}

// clusterProcessors is the size of a machine in the table of how a cluster grows.
const clusterProcessors = 4

// printGrowth prints what the model says of detectors, gateways and a server that have
// machines of their own.
func (b *bench) printGrowth(base sizing.System) error {
	b.title("checks/s of 2 000 in flight, predicted, where each process has %d processors of its own", clusterProcessors)
	t := &measure.Table{Head: []string{"gateways, detectors", "checks/s", "what is used most"}}
	for _, size := range []struct{ gateways, detectors float64 }{{1, 1}, {1, 2}, {2, 1}, {2, 2}, {4, 2}, {4, 4}} {
		s := with(base, fleet{detectors: int(size.detectors)})
		s.Processors, s.Messages = 0, checkerMessages*size.gateways
		for i, processes := range []float64{size.gateways, 1, size.detectors} {
			s.Parts[i].Servers = processes * clusterProcessors
		}
		p, err := s.Predict(2000)
		if err != nil {
			return err
		}
		t.Add(fmt.Sprintf("%.0f, %.0f", size.gateways, size.detectors), measure.Grouped(p.PerSecond), fmt.Sprintf("%s, %.0f %%", p.Busiest, 100*p.Use))
	}
	b.print(t)
	return nil
}
