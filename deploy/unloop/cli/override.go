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

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/kit/seal"
)

// maxScope bounds the values of scopes, in bytes: they become parts of keys.
const maxScope = 1024

// scopes has the flags that select requests.
type scopes struct {
	Session []string `env:"-" short:"s" placeholder:"ID" help:"Session, by the id that clients send (such as X-Session-ID) or by the hash in events. Repeatable, like the others."`
	Caller  []string `env:"-" short:"c" placeholder:"HASH" help:"Caller (an API key with its end user), by the hash in events."`
	Tenant  []string `env:"-" short:"t" placeholder:"NAME" help:"Tenant (X-Tenant-ID)."`
	Project []string `env:"-" short:"p" placeholder:"NAME" help:"Project (X-Project-ID)."`
}

// overrides returns one override for each value of the flags.
func (s scopes) overrides(action schemas.OverrideAction) ([]schemas.Override, error) {
	var all []schemas.Override
	for _, scope := range []struct {
		name   schemas.OverrideScope
		values []string
	}{{schemas.ScopeSession, s.Session}, {schemas.ScopeCaller, s.Caller}, {schemas.ScopeTenant, s.Tenant}, {schemas.ScopeProject, s.Project}} {
		for _, value := range scope.values {
			if value == "" || len(value) > maxScope {
				return nil, fmt.Errorf("--%s must have 1 to %d bytes", scope.name, maxScope)
			}
			all = append(all, schemas.Override{Action: action, Scope: scope.name, Value: value})
		}
	}
	if len(all) == 0 {
		return nil, errors.New("choose whose requests: --session, --caller, --tenant or --project")
	}
	return all, nil
}

// until has the flags of a new block or exemption.
type until struct {
	For    span   `env:"-" short:"f" required:"" placeholder:"DURATION" help:"How long, such as 90s, 10m, 1h30m, 1d or 2w."`
	Reason string `env:"-" short:"r" placeholder:"TEXT" help:"Reason. Answers to blocked requests contain it."`
}

type beginCmd struct {
	client
	formatted
	actor
	scopes
	until
	action schemas.OverrideAction
}

// Run stores overrides, which every gateway follows.
func (c *beginCmd) Run(ctx context.Context, std streams) error {
	lasts := time.Duration(c.For)
	if lasts < time.Second {
		return fmt.Errorf("--for is %s, must be at least 1s, as in --for 1h", lasts)
	}
	done := map[schemas.OverrideAction]string{schemas.OverrideBlock: "Blocked", schemas.OverrideExempt: "Exempted"}[c.action]
	return c.change(ctx, c.scopes, c.action, func(s overrideStore, o schemas.Override) error {
		now := time.Now()
		o.Reason, o.CreatedAt, o.ExpiresAt = c.Reason, now, now.Add(lasts)
		if err := operator.PutOverride(ctx, s.js, s.by, o); err != nil {
			return err
		}
		c.record(ctx, s.js, std, operator.AuditOf(c.action, true), string(o.Scope)+" "+o.Value, operator.OverrideDetail(o))
		return c.done(std, o, "%s %s %s until %s.\n", done, o.Scope, o.Value, terminal.Moment(o.ExpiresAt, now))
	})
}

type endCmd struct {
	client
	formatted
	actor
	scopes
	action schemas.OverrideAction
}

// Run marks overrides as ended. The records stay as long as the overrides would.
func (c *endCmd) Run(ctx context.Context, std streams) error {
	ended := map[schemas.OverrideAction]string{schemas.OverrideBlock: "blocked", schemas.OverrideExempt: "exempt"}[c.action]
	return c.change(ctx, c.scopes, c.action, func(s overrideStore, o schemas.Override) error {
		i := slices.IndexFunc(s.standing, func(set schemas.Override) bool { return set.Key() == o.Key() })
		if i < 0 {
			return fmt.Errorf("%s %s is not %s; `unloop overrides` lists what is", o.Scope, o.Value, ended)
		}
		set := s.standing[i]
		set.EndedAt = time.Now()
		if err := operator.PutOverride(ctx, s.js, s.by, set); err != nil {
			return err
		}
		c.record(ctx, s.js, std, operator.AuditOf(c.action, false), string(o.Scope)+" "+o.Value, "")
		return c.done(std, set, "No longer %s: %s %s.\n", ended, o.Scope, o.Value)
	})
}

// overrideStore is the bucket of overrides.
type overrideStore struct {
	js jetstream.JetStream
	by *seal.Signer
	// standing are the overrides in force.
	standing []schemas.Override
}

// change calls do for each override that the scopes name, and returns all errors.
func (c client) change(ctx context.Context, s scopes, action schemas.OverrideAction, do func(overrideStore, schemas.Override) error) error {
	all, err := s.overrides(action)
	if err != nil {
		return err
	}
	by, err := c.signer()
	if err != nil {
		return err
	}
	return c.with(ctx, func(js jetstream.JetStream) error {
		standing, err := c.standing(ctx, js, time.Now())
		if err != nil {
			return fmt.Errorf("open the overrides: %w", err)
		}
		var faults error
		for _, o := range all {
			faults = errors.Join(faults, do(overrideStore{js, by, standing}, o))
		}
		return faults
	})
}

type overridesCmd struct{ listing }

// Run lists the blocks and exemptions in force.
func (c *overridesCmd) Run(ctx context.Context, std streams) error {
	read := func(ctx context.Context, js jetstream.JetStream) ([]schemas.Override, error) {
		return c.standing(ctx, js, time.Now())
	}
	return list[schemas.Override]{read, "Nothing is blocked or exempted.", overrideTable}.run(ctx, &c.listing, std)
}

// standing returns the overrides in force.
func (c client) standing(ctx context.Context, js jetstream.JetStream, now time.Time) ([]schemas.Override, error) {
	trust, err := c.trust()
	if err != nil {
		return nil, err
	}
	all, err := sealed[schemas.Override](ctx, js, trust, schemas.BucketOverrides)
	return slices.DeleteFunc(all, func(o schemas.Override) bool { return !o.StandsAt(now) }), err
}

func overrideTable(all []schemas.Override, now time.Time) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Name: "ACTION"}, terminal.Column{Name: "SCOPE"}, terminal.Column{Name: "VALUE", MinWidth: 10},
		terminal.Column{Name: "UNTIL", Rank: 2}, terminal.Column{Name: "LEFT"}, terminal.Column{Name: "SINCE", Rank: 3}, terminal.Column{Name: "REASON", Rank: 1, MinWidth: 8})
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

// readOverrides reads a file with a JSON list of overrides, or one override per line; none if
// the name is "". The error names every fault.
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
	var faults error
	for i, o := range all {
		if err := o.Validate(); err != nil {
			faults = errors.Join(faults, fmt.Errorf("read --overrides %s: override %d: %w", name, i+1, err))
		}
	}
	return all, faults
}
