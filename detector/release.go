package detector

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
)

// releaseTimeout bounds an operator's release.
const releaseTimeout = 10 * time.Second

func (d *Detector) onRelease(req micro.Request) {
	var r checkpb.ReleaseRequest
	if err := proto.Unmarshal(req.Data(), &r); err != nil {
		d.metrics.malformed.Inc()
		return
	}
	d.spawn(func() { d.reply(req, d.release(r.GetLoopId())) },
		func() { d.reply(req, &checkpb.ReleaseReply{Error: errorOverloaded}) })
}

// release resets an incident's counters and has every gateway and detector
// forget what it remembers of them.
func (d *Detector) release(loopID string) *checkpb.ReleaseReply {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	refs, err := d.incidents.Release(ctx, loopID)
	if errors.Is(err, incident.ErrNotOpen) {
		return &checkpb.ReleaseReply{Error: err.Error()}
	}
	if err != nil {
		d.log.Warn("loop not released", "loop_id", loopID, "error", err)
		return &checkpb.ReleaseReply{Error: "the store did not answer; try again"}
	}
	body, err := proto.Marshal(&checkpb.Forget{Counters: refs})
	if err == nil {
		err = d.deps.NATS.Publish(schemas.SubjectForget, body)
	}
	if err != nil {
		return &checkpb.ReleaseReply{Error: "gateways were not told; try again"}
	}
	return &checkpb.ReleaseReply{Released: refs}
}

// onOutcome notes for each counter that its last call came to nothing.
func (d *Detector) onOutcome(req micro.Request) {
	var o checkpb.Outcome
	if err := proto.Unmarshal(req.Data(), &o); err != nil {
		d.metrics.malformed.Inc()
		return
	}
	if d.enter() {
		d.excuse(o.GetCounters(), d.leave)
	}
}

func (d *Detector) excuse(counters []*checkpb.Counter, done func()) {
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.MaxBudget)
	each(len(counters), func(i int, done func()) {
		d.excuseOne(ctx, counters[i], func(err error) {
			if err != nil {
				d.metrics.uncounted.Inc()
			}
			done()
		})
	}, func() {
		cancel()
		done()
	})
}

func (d *Detector) excuseOne(ctx context.Context, c *checkpb.Counter, done func(error)) {
	params, err := counter.FromWire(c)
	if err != nil {
		done(err)
		return
	}
	d.counters.Start(ctx, counterKey(c), func(s counter.State) (counter.State, time.Duration) {
		if s.Count == 0 {
			return s, 0
		}
		return counter.Excuse(s), s.TTL(params, d.now())
	}, done)
}
