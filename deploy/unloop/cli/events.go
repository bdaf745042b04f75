package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
)

type eventsCmd struct {
	client
	Since time.Duration `default:"1h" help:"How far back to begin."`
	JSON  bool          `name:"json" help:"Print each event as JSON, one a line."`
	Count int           `help:"Stop after this number of events; 0 never stops."`
}

// Run prints events until the context ends.
func (c *eventsCmd) Run(ctx context.Context, io streams) error {
	js, err := c.connect()
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	start := time.Now().Add(-c.Since)
	consumer, err := js.OrderedConsumer(ctx, schemas.StreamEvents, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &start,
	})
	if err != nil {
		return explain(fmt.Errorf("read events: %w", err))
	}
	messages, err := consumer.Messages(jetstream.PullExpiry(2*time.Second), jetstream.PullHeartbeat(500*time.Millisecond))
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	defer context.AfterFunc(ctx, messages.Stop)()
	defer messages.Stop()
	out := io.printer()
	for n := 0; c.Count == 0 || n < c.Count; n++ {
		msg, err := messages.Next()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		if c.print(out, msg.Data()); out.err != nil {
			return out.err
		}
	}
	return nil
}

func (c *eventsCmd) print(out *printer, body []byte) {
	e, err := event.Parse(body)
	if err != nil {
		out.printf("an event could not be read: %v\n", err)
		return
	}
	if c.JSON {
		out.printf("%s\n", bytes.ReplaceAll(body, []byte("\n"), nil))
		return
	}
	out.printf("%s  %-13s  %s  policy %s, detector %s%s, %s, %d hits in %d s%s\n",
		e.Timestamp.Local().Format(time.TimeOnly), e.Type, e.Data.LoopID, e.Data.Policy, e.Data.Detector, ofTools(e.Data),
		verb(e.Data), e.Data.HitCount, e.Data.WindowSeconds, tenant(e.TenantID))
}

// verb returns the action; of a shadow policy, the action that it would have taken.
func verb(d event.Data) string {
	if d.Mode == event.ModeShadow {
		return "would " + d.Action
	}
	return d.Action
}

// tools returns the tools of the loop's strongest finding, separated by commas.
func tools(d event.Data) string {
	i := slices.IndexFunc(d.Findings, func(f event.Finding) bool {
		return f.Tool != "" && f.Detector == d.Detector && f.Action == d.Action
	})
	if i < 0 {
		return ""
	}
	return d.Findings[i].Tool
}

func ofTools(d event.Data) string {
	if names := tools(d); names != "" {
		return " (" + names + ")"
	}
	return ""
}

func tenant(id string) string {
	if id == "" {
		return ""
	}
	return fmt.Sprintf(", tenant %q", id)
}
