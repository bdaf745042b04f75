package decide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// errElsewhere says that the detector that owns a record has not counted.
var errElsewhere = errors.New("the detector that owns the record did not count")

// send hands work over to the detector that owns a record. gone reports that it has counted
// nothing; other errors leave that open.
func (d *Decider) send(ctx context.Context, owner string, h *checkpb.Handover) (reply *checkpb.HandoverReply, gone bool, err error) {
	reply, gone, err = d.Peers.Send(ctx, owner, h)
	if err != nil {
		return nil, gone, err
	}
	switch why := reply.GetError(); why {
	case "":
		return reply, false, nil
	case errorMalformed:
		return nil, false, evaluate.ErrMalformed
	default:
		return nil, why == ErrorOverloaded, fmt.Errorf("%w: %s", errElsewhere, why)
	}
}

// take decodes the verdict of a step that another detector applied.
func (p *part) take(reply *checkpb.HandoverReply) error {
	if err := json.Unmarshal(reply.GetVerdict(), p.Verdict()); err != nil {
		return fmt.Errorf("read the verdict of another detector: %w", err)
	}
	return nil
}

// Step applies the step of the single part that another detector handed over, and returns its
// verdict.
func (d *Decider) Step(ctx context.Context, check *checkpb.Check) *checkpb.HandoverReply {
	parts := d.parts(check)
	if len(parts) != 1 || !evaluate.Bounded(check) {
		return &checkpb.HandoverReply{Error: d.explain(evaluate.ErrMalformed)}
	}
	p := &parts[0]
	err := p.err
	if err == nil {
		err = wait(ctx, p.start)
		if p.budget != nil && natskit.IsFull(err) {
			err = p.squeeze(ctx, err)
		}
	}
	var verdict []byte
	if err == nil {
		verdict, err = json.Marshal(p.Verdict())
	}
	return &checkpb.HandoverReply{Verdict: verdict, Error: d.explain(err)}
}

// StepOutcome applies the outcome that another detector handed over.
func (d *Decider) StepOutcome(ctx context.Context, o *checkpb.Outcome) *checkpb.HandoverReply {
	if d.Apply(ctx, o) != nil {
		return &checkpb.HandoverReply{Error: errorUncounted}
	}
	return &checkpb.HandoverReply{}
}
