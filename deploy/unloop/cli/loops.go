package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/openloop"
)

type loopsCmd struct {
	List    loopsListCmd    `cmd:"" default:"withargs" help:"List open loops."`
	Show    loopsShowCmd    `cmd:"" help:"Show everything known about a loop."`
	Release loopsReleaseCmd `cmd:"" help:"End loops: reset their counters and let their requests through."`
}

// loopFilter has the flags that select loops.
type loopFilter struct {
	Policy   []string `env:"-" short:"p" placeholder:"ID" help:"Only loops of this policy. Repeatable, like all filters."`
	Detector []string `env:"-" short:"d" placeholder:"NAME" help:"Only loops that this detector found."`
	Action   []string `env:"-" short:"a" placeholder:"ACTION" help:"Only loops with this action: warn, hint, throttle, reject or break."`
	Tenant   []string `env:"-" short:"t" placeholder:"NAME" help:"Only loops of this tenant."`
	Project  []string `env:"-" placeholder:"NAME" help:"Only loops of this project."`
	Session  []string `env:"-" short:"s" placeholder:"HASH" help:"Only loops of this session; a prefix of its hash is enough."`
}

// isSet reports whether any filter is set.
func (f *loopFilter) isSet() bool {
	return len(f.Policy)+len(f.Detector)+len(f.Action)+len(f.Tenant)+len(f.Project)+len(f.Session) > 0
}

// matches reports whether a loop passes the filter.
func (f *loopFilter) matches(d *event.Data, tenant, project string) bool {
	in := func(wanted []string, have string) bool { return len(wanted) == 0 || slices.Contains(wanted, have) }
	begins := func(prefix string) bool { return strings.HasPrefix(d.Session, prefix) }
	return in(f.Policy, d.Policy) && in(f.Detector, d.Detector) && in(f.Action, d.Action) && in(f.Tenant, tenant) && in(f.Project, project) &&
		(len(f.Session) == 0 || slices.ContainsFunc(f.Session, begins))
}

// filter returns the loops that pass the filter.
func (f *loopFilter) filter(loops []openloop.Record) []openloop.Record {
	return slices.DeleteFunc(loops, func(l openloop.Record) bool { return !f.matches(&l.Data, l.Tenant, l.Project) })
}

type loopsListCmd struct {
	listing
	loopFilter
}

// Run lists the open loops, newest first.
func (c *loopsListCmd) Run(ctx context.Context, std streams) error {
	none := "No loop is open."
	if c.isSet() {
		none = "No open loop matches."
	}
	return list[openloop.Record]{c.read, none, loopTable}.run(ctx, &c.listing, std)
}

// read returns the open loops that match the filter.
func (c *loopsListCmd) read(ctx context.Context, js jetstream.JetStream) ([]openloop.Record, error) {
	loops, err := storedLoops(ctx, js)
	return c.filter(stillOpen(loops, time.Now())), err
}

func loopTable(loops []openloop.Record, now time.Time) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Name: "LOOP"}, terminal.Column{Name: "ACTION"}, terminal.Column{Name: "DETECTOR"},
		terminal.Column{Name: "TOOL", Rank: 3, MinWidth: 8}, terminal.Column{Name: "HITS", Rank: 1, Right: true}, terminal.Column{Name: "STOPPED", Rank: 2, Right: true},
		terminal.Column{Name: "POLICY", Rank: 4, MinWidth: 7}, terminal.Column{Name: "SESSION", Rank: 6, MinWidth: 8}, terminal.Column{Name: "PROJECT", Rank: 5, MinWidth: 8},
		terminal.Column{Name: "TENANT", Rank: 7, MinWidth: 8}, terminal.Column{Name: "MODEL", Rank: 9, MinWidth: 8},
		terminal.Column{Name: "SINCE", Rank: 8}, terminal.Column{Name: "LAST SEEN"})
	for i := range loops {
		l := &loops[i]
		t.Row(l.LoopID, actionCell(l.Data), l.Detector, l.Data.Facts().Tool, strconv.Itoa(l.HitCount), strconv.Itoa(l.Saved.Requests),
			l.Policy, l.Session, l.Project, l.Tenant, l.Model, terminal.Moment(l.FirstSeen, now), terminal.Ago(l.LastSeen, now))
	}
	return t
}

// actionCell returns the action on a loop, in red if its requests are stopped.
func actionCell(d event.Data) terminal.Cell {
	style := terminal.Yellow
	switch {
	case d.Mode == event.ModeShadow:
		style = terminal.Faint
	case d.Action == "reject" || d.Action == "break":
		style = terminal.Red
	}
	return terminal.Cell{Text: verb(d), Style: style}
}

type loopsReleaseCmd struct {
	client
	formatted
	actor
	loopFilter
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of loops, as listed by unloop loops; a unique prefix or suffix is enough."`
	All bool     `env:"-" help:"Release all open loops that match the filters."`
}

// released is the result of a release, as JSON.
type released struct {
	LoopID   string `json:"loop_id"`
	Counters int    `json:"counters"`
}

// Run releases loops.
func (c *loopsReleaseCmd) Run(ctx context.Context, std streams) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.with(ctx, func(js jetstream.JetStream) error {
		loops, err := c.selected(ctx, js)
		if err != nil {
			return err
		}
		if len(loops) == 0 && !c.JSON {
			fmt.Fprintln(std.out, "No open loop matches: nothing to release.")
		}
		var faults error
		for _, l := range loops {
			faults = errors.Join(faults, c.release(ctx, js, std, &l))
		}
		return faults
	})
}

// release releases one loop and reports it.
func (c *loopsReleaseCmd) release(ctx context.Context, js jetstream.JetStream, std streams, l *openloop.Record) error {
	counters, err := operator.Release(ctx, js.Conn(), l.LoopID)
	if err != nil {
		return err
	}
	c.record(ctx, js, std, schemas.AuditRelease, l.LoopID, "policy "+l.Policy)
	restarts := fmt.Sprintf("%d counters restart", counters)
	if counters == 1 {
		restarts = "its counter restarts"
	}
	return c.done(std, released{l.LoopID, counters}, "Released %s: %s.\n", l.LoopID, restarts)
}

func (c *loopsReleaseCmd) check() error {
	switch {
	case len(c.IDs) > 0 && (c.All || c.isSet()):
		return errors.New("name loops by their ids, or select them with --all and filters, not both")
	case len(c.IDs) == 0 && !c.All:
		return errors.New("say which loops to release: their ids, or --all, with filters such as --policy ID")
	}
	return nil
}

// selected returns the loops to release.
func (c *loopsReleaseCmd) selected(ctx context.Context, js jetstream.JetStream) ([]openloop.Record, error) {
	loops, err := storedLoops(ctx, js)
	if err != nil {
		return nil, err
	}
	if c.All {
		return c.filter(stillOpen(loops, time.Now())), nil
	}
	var all []openloop.Record
	for _, id := range c.IDs {
		l, err := findLoop(loops, id)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// storedLoops returns the stored incidents, newest first. The window of some may be over.
func storedLoops(ctx context.Context, js jetstream.JetStream) ([]openloop.Record, error) {
	loops, err := stored[openloop.Record](ctx, js, schemas.BucketIncidents)
	if err != nil {
		return nil, fmt.Errorf("read open loops: %w", err)
	}
	loops = slices.DeleteFunc(loops, func(l openloop.Record) bool { return l.LoopID == "" })
	slices.SortFunc(loops, func(a, b openloop.Record) int { return b.LastSeen.Compare(a.LastSeen) })
	return loops, nil
}

// stillOpen returns the loops whose window is not over.
func stillOpen(loops []openloop.Record, now time.Time) []openloop.Record {
	return slices.DeleteFunc(slices.Clone(loops), func(l openloop.Record) bool { return !l.Ends.IsZero() && !now.Before(l.Ends) })
}

// errNotOpen means that no loop has an id.
var errNotOpen = errors.New("no loop has the id")

// hasID reports whether a loop's id begins or ends with the given text.
func hasID(loopID, given string) bool {
	return given != "" && (strings.HasPrefix(loopID, given) || strings.HasSuffix(loopID, given))
}

// findLoop returns the loop with an id, or the only one whose id has it as a prefix or
// suffix. Suffixes are useful because ids from one detector begin alike.
func findLoop(loops []openloop.Record, id string) (openloop.Record, error) {
	var found []openloop.Record
	for _, l := range loops {
		if l.LoopID == id {
			return l, nil
		}
		if hasID(l.LoopID, id) {
			found = append(found, l)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return openloop.Record{}, fmt.Errorf("%w %s; `unloop loops` lists those that are open", errNotOpen, id)
	}
	var ids []string
	for _, l := range found {
		ids = append(ids, l.LoopID)
	}
	return openloop.Record{}, fmt.Errorf("%d loops have an id that begins or ends with %s: %s", len(found), id, strings.Join(ids, ", "))
}
