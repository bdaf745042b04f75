package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
)

type loopsCmd struct {
	List    loopsListCmd    `cmd:"" default:"withargs" help:"List open loops."`
	Show    loopsShowCmd    `cmd:"" help:"Show the record of a loop."`
	Release loopsReleaseCmd `cmd:"" help:"End a loop: forget its counts and let its requests through again."`
}

type loopsListCmd struct {
	client
	JSON bool `name:"json" help:"Print JSON, one loop a line."`
}

// Run lists the open loops, the newest first.
func (c *loopsListCmd) Run(ctx context.Context, io streams) error {
	loops, err := c.loops(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		enc := json.NewEncoder(io.out)
		for _, l := range loops {
			err = errors.Join(err, enc.Encode(l))
		}
		return err
	}
	if len(loops) == 0 {
		fmt.Fprintln(io.out, "No loop is open.")
		return nil
	}
	return io.table("LOOP\tPOLICY\tDETECTOR\tTOOL\tACTION\tHITS\tSTOPPED\tTENANT\tMODEL\tLAST SEEN", func(out *printer) {
		for _, l := range loops {
			out.printf("%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", l.LoopID, l.Policy, l.Detector, cmp.Or(tools(l.Data), "-"), verb(l.Data), l.HitCount,
				l.Saved.Requests, cmp.Or(l.Tenant, "-"), cmp.Or(l.Model, "-"), l.LastSeen.Local().Format(time.TimeOnly))
		}
	})
}

type loopsShowCmd struct {
	client
	ID string `arg:"" help:"The loop's id."`
}

// Run prints one loop's record.
func (c *loopsShowCmd) Run(ctx context.Context, io streams) error {
	loops, err := c.loops(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(loops, func(l event.Incident) bool { return l.LoopID == c.ID })
	if i < 0 {
		return fmt.Errorf("no open loop has the id %s; `unloop loops` lists those that are", c.ID)
	}
	return io.json(loops[i])
}

type loopsReleaseCmd struct {
	client
	ID string `arg:"" help:"The loop's id."`
}

// releaseTimeout is more than a detector needs to release a loop.
const releaseTimeout = 15 * time.Second

// Run releases a loop.
func (c *loopsReleaseCmd) Run(ctx context.Context, io streams) error {
	js, err := c.connect()
	if err != nil {
		return err
	}
	nc := js.Conn()
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	body, err := proto.Marshal(&checkpb.ReleaseRequest{LoopId: c.ID})
	if err != nil {
		return fmt.Errorf("release %s: %w", c.ID, err)
	}
	answer, err := nc.RequestWithContext(ctx, schemas.SubjectRelease, body)
	if errors.Is(err, nats.ErrNoResponders) {
		return errors.New("no detector is running on this NATS server")
	}
	if err != nil {
		return fmt.Errorf("release %s: %w", c.ID, err)
	}
	var reply checkpb.ReleaseReply
	if err := proto.Unmarshal(answer.Data, &reply); err != nil {
		return fmt.Errorf("release %s: %w", c.ID, err)
	}
	if reply.GetError() != "" {
		return fmt.Errorf("release %s: %s", c.ID, reply.GetError())
	}
	switch n := max(len(reply.GetReleased()), int(reply.GetCount())); n {
	case 1:
		fmt.Fprintf(io.out, "Released %s: its counter starts anew.\n", c.ID)
	default:
		fmt.Fprintf(io.out, "Released %s: %d counters start anew.\n", c.ID, n)
	}
	return nil
}

// loops connects and returns the open loops, the newest first.
func (c client) loops(ctx context.Context) ([]event.Incident, error) {
	js, err := c.connect()
	if err != nil {
		return nil, err
	}
	defer js.Conn().Close()
	return openLoops(ctx, js)
}

// openLoops returns the incidents that are stored, the newest first.
func openLoops(ctx context.Context, js jetstream.JetStream) ([]event.Incident, error) {
	loops, err := stored[event.Incident](ctx, js, schemas.BucketIncidents)
	if err != nil {
		return nil, fmt.Errorf("read open loops: %w", err)
	}
	loops = slices.DeleteFunc(loops, func(l event.Incident) bool { return l.LoopID == "" })
	slices.SortFunc(loops, func(a, b event.Incident) int { return b.LastSeen.Compare(a.LastSeen) })
	return loops, nil
}
