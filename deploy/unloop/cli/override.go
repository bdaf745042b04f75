package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas"
)

// markerTTL is how long the marker of an end is kept: long enough for every gateway to
// read it.
const markerTTL = time.Hour

// scopes are the flags that select requests.
type scopes struct {
	Session []string `placeholder:"HASH" help:"Sessions, as events show them."`
	Caller  []string `placeholder:"HASH" help:"Callers, as events show them."`
	Tenant  []string `placeholder:"NAME" help:"Tenants."`
	Project []string `placeholder:"NAME" help:"Projects."`
}

// overrides returns one override for each value of the flags.
func (s scopes) overrides(action schemas.OverrideAction) ([]schemas.Override, error) {
	var all []schemas.Override
	for _, scope := range []struct {
		name   schemas.OverrideScope
		values []string
	}{{schemas.ScopeSession, s.Session}, {schemas.ScopeCaller, s.Caller}, {schemas.ScopeTenant, s.Tenant}, {schemas.ScopeProject, s.Project}} {
		for _, value := range scope.values {
			if value == "" {
				return nil, fmt.Errorf("--%s must not be empty", scope.name)
			}
			all = append(all, schemas.Override{Action: action, Scope: scope.name, Value: value})
		}
	}
	if len(all) == 0 {
		return nil, errors.New("say whose requests are meant: --session, --caller, --tenant or --project")
	}
	return all, nil
}

// until are the flags of a block or an exemption.
type until struct {
	For    time.Duration `required:"" placeholder:"DURATION" help:"Duration, such as 10m."`
	Reason string        `placeholder:"TEXT" help:"Reason, which the answers to blocked requests contain."`
}

type beginCmd struct {
	client
	scopes
	until
	action schemas.OverrideAction
}

// Run stores overrides, which apply at every gateway from now on. The TTL of a record is
// longer than the override by a minute: gateways end it by its own time.
func (c *beginCmd) Run(ctx context.Context, io streams) error {
	if c.For < time.Second {
		return fmt.Errorf("--for is %s, must be at least 1s", c.For)
	}
	done := map[schemas.OverrideAction]string{schemas.OverrideBlock: "Blocked", schemas.OverrideExempt: "Exempted"}[c.action]
	now := time.Now()
	return c.put(ctx, c.scopes, c.action, c.For+time.Minute, func(o schemas.Override) (*nats.Msg, error) {
		o.Reason, o.CreatedAt, o.ExpiresAt = c.Reason, now, now.Add(c.For)
		body, err := json.Marshal(o)
		return &nats.Msg{Data: body}, err
	}, func(o schemas.Override) {
		fmt.Fprintf(io.out, "%s %s %s until %s.\n", done, o.Scope, o.Value, now.Add(c.For).Local().Format(time.DateTime))
	})
}

type endCmd struct {
	client
	scopes
	action schemas.OverrideAction
}

// Run replaces overrides by a marker of their end.
func (c *endCmd) Run(ctx context.Context, io streams) error {
	ended := map[schemas.OverrideAction]string{schemas.OverrideBlock: "blocked", schemas.OverrideExempt: "exempt"}[c.action]
	return c.put(ctx, c.scopes, c.action, markerTTL, func(schemas.Override) (*nats.Msg, error) {
		return &nats.Msg{Header: nats.Header{"KV-Operation": {"PURGE"}, jetstream.MsgRollup: {jetstream.MsgRollupSubject}}}, nil
	}, func(o schemas.Override) {
		fmt.Fprintf(io.out, "No longer %s: %s %s.\n", ended, o.Scope, o.Value)
	})
}

// put stores a message for each override that the scopes name, and reports it. The
// record gets a TTL of its own, which the client's key-value calls allow for new keys
// only.
func (c client) put(ctx context.Context, s scopes, action schemas.OverrideAction, ttl time.Duration,
	message func(schemas.Override) (*nats.Msg, error), report func(schemas.Override),
) error {
	all, err := s.overrides(action)
	if err != nil {
		return err
	}
	js, err := c.connect()
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	for _, o := range all {
		msg, err := message(o)
		if err == nil {
			msg.Subject = "$KV." + schemas.BucketOverrides + "." + o.Key()
			_, err = js.PublishMsg(ctx, msg, jetstream.WithMsgTTL(ttl.Truncate(time.Second)))
		}
		if err != nil {
			return explain(fmt.Errorf("%s %s %s: %w", action, o.Scope, o.Value, err))
		}
		report(o)
	}
	return nil
}

type overridesCmd struct {
	client
	JSON bool `name:"json" short:"j" help:"Print JSON, which unloop replay --overrides reads."`
	watched
}

// Run lists the blocks and exemptions that have not ended.
func (c *overridesCmd) Run(ctx context.Context, io streams) error {
	js, err := c.connect()
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	return c.draw(ctx, io, func(io streams) error {
		all, err := stored[schemas.Override](ctx, js, schemas.BucketOverrides)
		if err != nil {
			return fmt.Errorf("read overrides: %w", err)
		}
		now := time.Now()
		all = slices.DeleteFunc(all, func(o schemas.Override) bool { return !now.Before(o.ExpiresAt) })
		switch {
		case c.JSON:
			return io.json(all)
		case len(all) == 0:
			_, err = fmt.Fprintln(io.out, "Nothing is blocked or exempted.")
			return err
		}
		return io.print(overrideTable(all, now))
	})
}

func overrideTable(all []schemas.Override, now time.Time) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Name: "ACTION"}, terminal.Column{Name: "SCOPE"}, terminal.Column{Name: "VALUE", Least: 10},
		terminal.Column{Name: "UNTIL", Rank: 2}, terminal.Column{Name: "LEFT"}, terminal.Column{Name: "SINCE", Rank: 3}, terminal.Column{Name: "REASON", Rank: 1, Least: 8})
	for _, o := range all {
		style := terminal.Yellow
		if o.Action == schemas.OverrideBlock {
			style = terminal.Red
		}
		t.Row(terminal.Cell{Text: string(o.Action), Style: style}, string(o.Scope), o.Value,
			terminal.Moment(o.ExpiresAt, now), terminal.Age(o.ExpiresAt.Sub(now)), terminal.Moment(o.CreatedAt, now), o.Reason)
	}
	return t
}

// readOverrides reads overrides from a file with a JSON list or one override a line; ""
// is no file. The error names every fault.
func readOverrides(name string) ([]schemas.Override, error) {
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read --overrides: %w", err)
	}
	all := []schemas.Override{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		err = dec.Decode(&all)
	} else {
		for err == nil {
			var one schemas.Override
			if err = dec.Decode(&one); err == nil {
				all = append(all, one)
			}
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read --overrides %s: %w", name, err)
	}
	var faults []error
	for i, o := range all {
		if err := o.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("read --overrides %s: override %d: %w", name, i+1, err))
		}
	}
	return all, errors.Join(faults...)
}
