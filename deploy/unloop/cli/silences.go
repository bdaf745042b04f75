package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/silences"
	"github.com/unloop/unloop/schemas/match"
	"github.com/unloop/unloop/schemas/silence"
)

type silencesCmd struct {
	List   silencesListCmd   `cmd:"" default:"withargs" help:"List silences."`
	Add    silencesAddCmd    `cmd:"" help:"Mute notifications about matching loops for a time."`
	Expire silencesExpireCmd `cmd:"" help:"End a silence now."`
}

type silencesListCmd struct{ listing }

// Run lists the silences in force.
func (c *silencesListCmd) Run(ctx context.Context, std streams) error {
	return list[silence.Silence]{silences.List, "Nothing is silenced.", silenceTable}.run(ctx, &c.listing, std)
}

func silenceTable(all []silence.Silence, now time.Time) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Name: "ID"}, terminal.Column{Name: "MATCHES", MinWidth: 12}, terminal.Column{Name: "UNTIL", Rank: 2},
		terminal.Column{Name: "LEFT"}, terminal.Column{Name: "AUTHOR", Rank: 1, MinWidth: 8}, terminal.Column{Name: "COMMENT", Rank: 3, MinWidth: 8})
	for i := range all {
		s := &all[i]
		t.Row(s.ID, s.Matchers.String(), terminal.Moment(s.End, now), terminal.Age(s.End.Sub(now)), s.Author, s.Comment)
	}
	return t
}

type silencesAddCmd struct {
	client
	formatted
	actor
	Matchers []string `arg:"" name:"matcher" help:"FIELD=PATTERN, where FIELD is tenant, project, policy, detector, severity, action, mode, model, session or loop. In a pattern * matches any text; a leading ! negates it. Every field must match; patterns of the same field are alternatives."`
	For      span     `env:"-" short:"f" required:"" placeholder:"DURATION" help:"How long, such as 90s, 10m, 1h30m, 1d or 2w."`
	Comment  string   `env:"-" short:"c" placeholder:"TEXT" help:"Reason, for other operators."`
}

// Run stores a silence, which every notifier follows.
func (c *silencesAddCmd) Run(ctx context.Context, std streams) error {
	matchers, err := match.Parse(c.Matchers)
	if err != nil {
		return err
	}
	lasts := time.Duration(c.For)
	if lasts < time.Second {
		return fmt.Errorf("--for is %s, must be at least 1s, as in --for 1h", lasts)
	}
	return c.with(ctx, func(js jetstream.JetStream) error {
		now := time.Now().UTC()
		s, err := silences.Add(ctx, js, silence.Silence{Matchers: matchers, Author: c.name(), Comment: c.Comment, Start: now, End: now.Add(lasts)})
		if err != nil {
			return explain(err)
		}
		c.record(ctx, js, std, schemas.AuditSilence, s.ID, s.Matchers.String()+" until "+s.End.Format(time.RFC3339)+reason(c.Comment))
		return c.done(std, s, "Silenced %s until %s. End it with: unloop silences expire %s\n", s.Matchers, terminal.Moment(s.End, now), s.ID)
	})
}

// reason returns a comment as a suffix of an audit entry.
func reason(comment string) string {
	if comment == "" {
		return ""
	}
	return ": " + comment
}

type silencesExpireCmd struct {
	client
	formatted
	actor
	ID string `arg:"" help:"The silence's id, as unloop silences lists it."`
}

// Run ends a silence.
func (c *silencesExpireCmd) Run(ctx context.Context, std streams) error {
	return c.with(ctx, func(js jetstream.JetStream) error {
		s, err := silences.Expire(ctx, js, c.ID)
		if err != nil {
			return explain(err)
		}
		c.record(ctx, js, std, schemas.AuditUnsilence, s.ID, s.Matchers.String())
		return c.done(std, s, "No longer silenced: %s.\n", s.Matchers)
	})
}
