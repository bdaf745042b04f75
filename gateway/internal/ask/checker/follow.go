package checker

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/pause"
)

// reportEvery is the interval of reports of hits on standing blocks. A gateway that is killed
// loses the hits since the last one.
const reportEvery = 250 * time.Millisecond

// lastReport bounds the time for the last report at shutdown.
const lastReport = time.Second

// maxCooldown bounds messages about blocks, in bytes. Those of detectors have a few hundred.
const maxCooldown = 8 << 10

// Follow keeps the blocks up to date with detectors and operators, and reports hits on them,
// until the context ends.
func (c *Checker) Follow(ctx context.Context) error {
	reconnected, stopListening := c.nc.Changed()
	defer stopListening()
	stop, err := c.subscribe()
	if err != nil {
		return err
	}
	defer stop()
	for {
		select {
		case <-pause.Together(reportEvery):
			c.report()
		case <-reconnected:
			c.blocks.Doubt()
		case <-ctx.Done():
			c.report()
			c.nc.Flush(lastReport) // before the detectors of this process stop
			return nil
		}
	}
}

// Knows reports whether any detector was heard.
func (c *Checker) Knows() bool { return !c.fleet.Unknown() }

func (c *Checker) subscribe() (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, unsubscribe := range stops {
			unsubscribe()
		}
	}
	for subject, handle := range map[string]nats.MsgHandler{
		schemas.SubjectCooldown: c.onCooldown, schemas.SubjectForget: c.onForget,
		schemas.SubjectBeat: func(m *nats.Msg) { c.fleet.Hear(string(m.Data)) },
	} {
		unsubscribe, err := c.nc.Subscribe(subject, handle)
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, unsubscribe)
	}
	return stop, nil
}

func (c *Checker) onCooldown(m *nats.Msg) {
	var msg checkpb.Cooldown
	if len(m.Data) <= maxCooldown && proto.Unmarshal(m.Data, &msg) == nil {
		c.blocks.Learn(c.now(), msg.GetFinding())
	}
}

func (c *Checker) onForget(m *nats.Msg) {
	var msg checkpb.Forget
	if proto.Unmarshal(m.Data, &msg) == nil && len(msg.GetCounters()) > 0 {
		c.blocks.Forget(msg.GetCounters()...)
	}
}

// report publishes the hits on standing blocks, for the detectors to count.
func (c *Checker) report() {
	for batch := range slices.Chunk(c.blocks.TakeReports(c.now()), maxBatch) {
		for _, check := range batch {
			check.Hit = newHit() // not that of the check that was blocked first
		}
		if c.publish(schemas.SubjectCheck, &checkpb.CheckBatch{Checks: batch}) != nil {
			return // without a connection there is nobody to count them
		}
	}
}

func (c *Checker) publish(subject string, m proto.Message) error {
	body, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return c.nc.Publish(subject, body)
}
