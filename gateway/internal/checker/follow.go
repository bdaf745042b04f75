package checker

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
)

// reportEvery is how long hits on standing blocks are gathered. A gateway that
// is killed loses as much.
const reportEvery = 250 * time.Millisecond

// lastWords bounds how long the server may take to hear of the last hits.
const lastWords = time.Second

// Follow keeps the remembered blocks in step with the other gateways and the
// operators, and reports hits on them, until the context ends.
func (c *Checker) Follow(ctx context.Context) error {
	stop, err := c.subscribe()
	if err != nil {
		return err
	}
	defer stop()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	reconnected, stopListening := c.nc.Changed()
	defer stopListening()
	for {
		select {
		case <-tick.C:
			c.Report()
		case <-reconnected:
			c.blocks.Forget() // a release may have been missed meanwhile
		case <-ctx.Done():
			c.Report()
			c.nc.Flush(lastWords) // before the detectors of this process stop
			return nil
		}
	}
}

// maxCooldown is the largest message about a block that is kept, in bytes. Those
// of detectors have some hundred.
const maxCooldown = 8 << 10

func (c *Checker) subscribe() (stop func(), err error) {
	cooldown, err := c.nc.Subscribe(schemas.SubjectCooldown, func(m *nats.Msg) {
		var msg checkpb.Cooldown
		if len(m.Data) <= maxCooldown && proto.Unmarshal(m.Data, &msg) == nil {
			c.blocks.Learn(c.now(), msg.GetFinding())
		}
	})
	if err != nil {
		return nil, err
	}
	forget, err := c.nc.Subscribe(schemas.SubjectForget, func(m *nats.Msg) {
		var msg checkpb.Forget
		if proto.Unmarshal(m.Data, &msg) == nil && len(msg.GetCounters()) > 0 {
			c.blocks.Forget(msg.GetCounters()...)
		}
	})
	if err != nil {
		cooldown()
		return nil, err
	}
	beat, err := c.nc.Subscribe(schemas.SubjectBeat, func(m *nats.Msg) { c.fleet.hear(string(m.Data)) })
	if err != nil {
		cooldown()
		forget()
		return nil, err
	}
	return func() { cooldown(); forget(); beat() }, nil
}

// Report tells the detectors about the hits on standing blocks.
func (c *Checker) Report() {
	reports := c.blocks.TakeReports(c.now())
	for len(reports) > 0 {
		n := min(len(reports), maxBatch)
		body, err := proto.Marshal(&checkpb.CheckBatch{Checks: reports[:n]})
		if err == nil {
			err = c.nc.Publish(schemas.SubjectCheck, body)
		}
		if err != nil {
			return // without detectors there is nobody to count them
		}
		reports = reports[n:]
	}
}

// Correct tells a detector what estimates of rules were wrong by. When it is
// lost with the connection, the estimates stand.
func (c *Checker) Correct(corrections []*checkpb.Correction) {
	c.outcome(&checkpb.Outcome{Corrections: corrections})
}

// Outcome tells a detector that a counted request came to nothing. Aborted says
// that the client left while the answer came.
func (c *Checker) Outcome(check *checkpb.Check, aborted bool) {
	o := checkpb.OutcomeOf(check)
	o.Aborted = aborted
	c.outcome(o)
}

func (c *Checker) outcome(o *checkpb.Outcome) {
	body, err := proto.Marshal(o)
	if err == nil {
		_ = c.nc.Publish(schemas.SubjectOutcome, body) // lost with the connection: the replay then counts
	}
}
