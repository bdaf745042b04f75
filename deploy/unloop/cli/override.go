package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
)

// markerTTL is how long the record of an end stays: until then every gateway
// has seen it.
const markerTTL = time.Hour

// scopes are the flags that say whose requests are meant.
type scopes struct {
	Session []string `placeholder:"HASH" help:"Sessions, as events show them."`
	Caller  []string `placeholder:"HASH" help:"Callers, as events show them."`
	Tenant  []string `placeholder:"NAME" help:"Tenants."`
	Project []string `placeholder:"NAME" help:"Projects."`
}

// overrides are one override for each value that the flags name.
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

// until are the flags of overrides that begin.
type until struct {
	For    time.Duration `required:"" placeholder:"DURATION" help:"When it ends by itself, such as 10m."`
	Reason string        `placeholder:"TEXT" help:"Why; the answers to blocked requests say so."`
}

type blockCmd struct {
	client
	scopes
	until
}

// Run refuses requests at every gateway from now on.
func (c *blockCmd) Run(ctx context.Context, io streams) error {
	return c.begin(ctx, io, c.scopes, c.until, schemas.OverrideBlock)
}

type unblockCmd struct {
	client
	scopes
}

// Run ends blocks.
func (c *unblockCmd) Run(ctx context.Context, io streams) error {
	return c.end(ctx, io, c.scopes, schemas.OverrideBlock)
}

type exemptCmd struct {
	client
	scopes
	until
}

// Run forwards requests without a check from now on.
func (c *exemptCmd) Run(ctx context.Context, io streams) error {
	return c.begin(ctx, io, c.scopes, c.until, schemas.OverrideExempt)
}

type unexemptCmd struct {
	client
	scopes
}

// Run ends exemptions.
func (c *unexemptCmd) Run(ctx context.Context, io streams) error {
	return c.end(ctx, io, c.scopes, schemas.OverrideExempt)
}

// begin stores overrides, each with a TTL that outlives it a little: it ends by
// its own time, and the record goes later.
func (c client) begin(ctx context.Context, io streams, s scopes, u until, action schemas.OverrideAction) error {
	if u.For < time.Second {
		return fmt.Errorf("--for is %s, must be at least 1s", u.For)
	}
	all, err := s.overrides(action)
	if err != nil {
		return err
	}
	nc, js, err := c.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	now := time.Now()
	for _, o := range all {
		o.Reason, o.CreatedAt, o.ExpiresAt = u.Reason, now, now.Add(u.For)
		body, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("%s %s %s: %w", action, o.Scope, o.Value, err)
		}
		if err := putOverride(ctx, js, o, &nats.Msg{Data: body}, u.For+time.Minute); err != nil {
			return err
		}
		fmt.Fprintf(io.out, "%s %s %s until %s.\n", begun[action], o.Scope, o.Value, o.ExpiresAt.Local().Format(time.DateTime))
	}
	return nil
}

var begun = map[schemas.OverrideAction]string{schemas.OverrideBlock: "Blocked", schemas.OverrideExempt: "Exempted"}

// end replaces overrides by a marker of their end.
func (c client) end(ctx context.Context, io streams, s scopes, action schemas.OverrideAction) error {
	all, err := s.overrides(action)
	if err != nil {
		return err
	}
	nc, js, err := c.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	for _, o := range all {
		marker := &nats.Msg{Header: nats.Header{"KV-Operation": {"PURGE"}, jetstream.MsgRollup: {jetstream.MsgRollupSubject}}}
		if err := putOverride(ctx, js, o, marker, markerTTL); err != nil {
			return err
		}
		fmt.Fprintf(io.out, "No longer %s: %s %s.\n", ended[action], o.Scope, o.Value)
	}
	return nil
}

var ended = map[schemas.OverrideAction]string{schemas.OverrideBlock: "blocked", schemas.OverrideExempt: "exempt"}

// putOverride writes a record with its own TTL, which the client's key-value
// calls allow for new keys only.
func putOverride(ctx context.Context, js jetstream.JetStream, o schemas.Override, msg *nats.Msg, ttl time.Duration) error {
	msg.Subject = "$KV." + schemas.BucketOverrides + "." + o.Key()
	if _, err := js.PublishMsg(ctx, msg, jetstream.WithMsgTTL(ttl.Truncate(time.Second))); err != nil {
		return explain(fmt.Errorf("%s %s %s: %w", o.Action, o.Scope, o.Value, err))
	}
	return nil
}

type overridesCmd struct {
	client
	JSON bool `name:"json" help:"Print them as JSON, as unloop replay --overrides reads them."`
}

// Run lists what is blocked and exempted.
func (c *overridesCmd) Run(ctx context.Context, io streams) error {
	nc, js, err := c.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	all, err := currentOverrides(ctx, js)
	if err != nil {
		return err
	}
	if c.JSON {
		enc := json.NewEncoder(io.out)
		enc.SetIndent("", "  ")
		return enc.Encode(all)
	}
	if len(all) == 0 {
		fmt.Fprintln(io.out, "Nothing is blocked or exempted.")
		return nil
	}
	table := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	out := &printer{w: table}
	out.printf("ACTION\tSCOPE\tVALUE\tUNTIL\tREASON\n")
	for _, o := range all {
		out.printf("%s\t%s\t%s\t%s\t%s\n", o.Action, o.Scope, o.Value, o.ExpiresAt.Local().Format(time.DateTime), o.Reason)
	}
	return errors.Join(out.err, table.Flush())
}

// readOverrides reads overrides from a file, as a JSON list or one a line; "" is
// no file. It returns every fault.
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

// currentOverrides reads the overrides that have not ended, by key.
func currentOverrides(ctx context.Context, js jetstream.JetStream) ([]schemas.Override, error) {
	kv, err := js.KeyValue(ctx, schemas.BucketOverrides)
	if err != nil {
		return nil, explain(fmt.Errorf("read overrides: %w", err))
	}
	watch, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("read overrides: %w", err)
	}
	defer func() { _ = watch.Stop() }() // it ends with the connection anyway
	all := []schemas.Override{}
	now := time.Now()
	for entry := range watch.Updates() {
		if entry == nil {
			break
		}
		var o schemas.Override
		if json.Unmarshal(entry.Value(), &o) == nil && now.Before(o.ExpiresAt) {
			all = append(all, o)
		}
	}
	return all, ctx.Err()
}
