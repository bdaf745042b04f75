package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/audit"
)

// via names this tool in the audit log.
const via = "cli"

// actor has the flag --as of commands that change the running system.
type actor struct {
	As string `placeholder:"NAME" help:"Name for the audit log. Default: USER@HOST."`
}

// name returns the name for the audit log.
func (a actor) name() string { return cmp.Or(a.As, audit.Actor()) }

// record writes an action to the audit log. If that fails, the action stands, and record
// prints a warning.
func (a actor) record(ctx context.Context, js jetstream.JetStream, std streams, action schemas.AuditAction, target, detail string) {
	err := audit.Record(ctx, js, schemas.Audit{Actor: a.name(), Action: action, Target: target, Detail: detail, Via: via})
	if err != nil {
		fmt.Fprintln(std.err, "unloop: warning: done, but", err)
	}
}

type auditCmd struct {
	listing
	Last int `env:"-" short:"n" default:"50" placeholder:"N" help:"Print the newest N entries."`
}

// Run lists the entries, oldest first.
func (c *auditCmd) Run(ctx context.Context, std streams) error {
	if c.Last < 1 {
		return fmt.Errorf("--last is %d, must be at least 1", c.Last)
	}
	newest := func(ctx context.Context, js jetstream.JetStream) ([]schemas.Audit, error) {
		return audit.List(ctx, js, c.Last)
	}
	none := "Nobody has released, blocked, exempted or silenced anything."
	return list[schemas.Audit]{newest, none, auditTable}.run(ctx, &c.listing, std)
}

func auditTable(all []schemas.Audit, now time.Time) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Name: "WHEN"}, terminal.Column{Name: "WHO", MinWidth: 8}, terminal.Column{Name: "ACTION"},
		terminal.Column{Name: "TARGET", MinWidth: 10}, terminal.Column{Name: "DETAIL", Rank: 1, MinWidth: 8}, terminal.Column{Name: "VIA", Rank: 2})
	for _, a := range all {
		t.Row(terminal.Moment(a.At, now), a.Actor, string(a.Action), a.Target, a.Detail, a.Via)
	}
	return t
}
