package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas/event"
)

type eventsCmd struct {
	client
	formatted
	loopFilter
	Type  []string `env:"-" enum:"detected,ongoing,resolved" placeholder:"TYPE" help:"Only events of this type: detected, ongoing or resolved."`
	Since span     `env:"-" default:"1h" placeholder:"DURATION" help:"How far back to start, such as 10m or 1d."`
	Count int      `env:"-" short:"n" placeholder:"N" help:"Stop after this many events. Default: follow until Ctrl-C."`
}

// Run prints events until the context ends, or as many as asked for.
func (c *eventsCmd) Run(ctx context.Context, std streams) error {
	if c.Count < 0 {
		return fmt.Errorf("--count is %d, must not be negative", c.Count)
	}
	js, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	log, err := openEvents(ctx, js, time.Now().Add(-time.Duration(c.Since)))
	if err != nil {
		return err
	}
	waiting, pause := false, minEventPause
	for n := 0; ; {
		events, err := log.next(ctx)
		if err != nil {
			return err
		}
		for _, body := range events {
			out := std.printer()
			if c.print(out, body) {
				n++
			}
			if out.err != nil || c.Count > 0 && n >= c.Count {
				return out.err
			}
		}
		if len(events) > 0 {
			pause = minEventPause
			continue
		}
		if !waiting {
			waiting = true
			c.sayWaiting(std, n)
		}
		if pause, err = log.wait(ctx, pause); err != nil {
			return err
		}
	}
}

// sayWaiting reports that n events were printed and that it waits for more.
func (c *eventsCmd) sayWaiting(std streams, n int) {
	what := "events"
	if c.Count > 0 {
		what = plural(c.Count-n, "event")
	}
	fmt.Fprintf(std.err, "unloop: %s in the last %s; waiting for %s, until Ctrl-C\n", plural(n, "event"), c.Since, what)
}

// print prints an event, unless the filters exclude it.
func (c *eventsCmd) print(out *printer, body []byte) (printed bool) {
	e, err := event.Parse(body)
	switch {
	case err != nil:
		out.printf("an event could not be read: %v\n", err)
		return true
	case !c.matches(&e.Data, e.TenantID, e.ProjectID), len(c.Type) > 0 && !slices.Contains(c.Type, kind(e)):
		return false
	case c.JSON:
		out.printf("%s\n", bytes.ReplaceAll(body, []byte("\n"), nil))
	default:
		printEvent(out, e, time.Now())
	}
	return true
}

// kind returns the type of an event as one word.
func kind(e event.Event) string { return strings.TrimPrefix(string(e.Type), "loop.") }

// printEvent prints an event on one line, truncated to the width of the screen.
func printEvent(out *printer, e event.Event, now time.Time) {
	style := map[event.Type]terminal.Style{event.Detected: terminal.Red, event.Ongoing: terminal.Yellow, event.Resolved: terminal.Green}[e.Type]
	head := fmt.Sprintf("%s  %-8s", terminal.Moment(e.Timestamp, now), kind(e))
	line := fmt.Sprintf("  %s  %s: %s; policy %s, detector %s", e.Data.LoopID, verb(e.Data), e.Data.Facts().Text(), e.Data.Policy, e.Data.Detector)
	for _, of := range []struct{ name, value string }{{"project", e.ProjectID}, {"tenant", e.TenantID}, {"model", e.Data.Model}, {"session", e.Data.Session}} {
		if of.value != "" {
			line += ", " + of.name + " " + of.value
		}
	}
	line = terminal.Clean(line)
	if width := out.screen.Width; width > 0 {
		line = terminal.Truncate(line, max(width-len(head), 30))
	}
	out.printf("%s%s\n", out.screen.Paint(style, head), line)
}

// verb returns the action; of a shadow policy, the action that it would have taken.
func verb(d event.Data) string {
	if d.Mode == event.ModeShadow {
		return "would " + d.Action
	}
	return d.Action
}
