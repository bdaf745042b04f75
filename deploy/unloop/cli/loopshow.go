package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas/event"
)

type loopsShowCmd struct {
	client
	formatted
	ID string `arg:"" help:"Id of the loop, as listed by unloop loops; a unique prefix or suffix is enough."`
}

// Run shows one loop.
func (c *loopsShowCmd) Run(ctx context.Context, io streams) error {
	var loops []event.Incident
	err := c.with(ctx, func(js jetstream.JetStream) (err error) {
		loops, err = storedLoops(ctx, js)
		return err
	})
	if err != nil {
		return err
	}
	l, err := findLoop(loops, c.ID)
	if err != nil {
		return err
	}
	return c.show(io, l, func(out *printer) { showLoop(out, &l, time.Now()) })
}

// showLoop prints all that a person wants to know of a loop.
func showLoop(out *printer, l *event.Incident, now time.Time) {
	line := func(name, value string) {
		if value != "" {
			out.printf("%s %s\n", out.screen.Paint(terminal.Faint, fmt.Sprintf("%-10s", name)), terminal.Clean(value))
		}
	}
	out.printf("%s\n", out.screen.Paint(terminal.Bold, "Loop "+l.LoopID))
	line("found", l.Data.Facts().Text())
	line("action", actionWords(l.Data))
	line("policy", l.Policy+", detector "+l.Detector)
	line("seen", fmt.Sprintf("first %s, last %s (%s)", terminal.Moment(l.FirstSeen, now), terminal.Moment(l.LastSeen, now), terminal.Ago(l.LastSeen, now)))
	line("stopped", savedWords(&l.Saved))
	line("open", openWords(l, now))
	line("model", l.Model)
	line("tenant", l.Tenant)
	line("project", l.Project)
	line("session", l.Session)
	line("request", l.RequestID)
	out.printf("\n")
	out.table(findingTable(l.Findings))
	out.printf("\nLet its requests through again:  unloop loops release %s\n", l.LoopID)
	if l.Session != "" {
		out.printf("Stop the session altogether:     unloop block --session %s --for 1h\n", l.Session)
	}
}

func findingTable(findings []event.Finding) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Name: "DETECTOR"}, terminal.Column{Name: "ACTION"}, terminal.Column{Name: "COUNT", Right: true},
		terminal.Column{Name: "TOOL", Rank: 2, Least: 8}, terminal.Column{Name: "RULE", Rank: 3, Least: 8}, terminal.Column{Name: "FINGERPRINT", Rank: 1, Least: 12},
		terminal.Column{Name: "EXCERPT", Rank: 4, Least: 12})
	for _, f := range findings {
		t.Row(f.Detector, f.Action, strconv.Itoa(f.HitCount), f.Tool, f.Rule, f.Fingerprint, f.Excerpt)
	}
	return t
}

// actionWords describes the action on a loop.
func actionWords(d event.Data) string {
	if d.Mode == event.ModeShadow {
		return "none: the policy is in shadow mode (it would " + d.Action + ")"
	}
	switch {
	case d.Answer == event.AnswerSynthetic:
		return d.Action + ": Unloop answers in the model's place"
	case d.Action == "reject", d.Action == "break":
		return d.Action + ": its requests are refused"
	case d.Action == "hint":
		return "hint: the model is told that it repeats itself"
	case d.Action == "throttle":
		return "throttle: its requests are delayed"
	}
	return d.Action
}

// savedWords says what a loop's stopped requests would have cost.
func savedWords(s *event.Saved) string {
	if s.Requests == 0 {
		return "no request"
	}
	words := plural(s.Requests, "request") + ", about " + many(s.InputTokens, "input token")
	if s.USD != nil {
		words += dollars(*s.USD)
	}
	return words
}

func openWords(l *event.Incident, now time.Time) string {
	switch {
	case l.Ends.IsZero():
		return ""
	case now.Before(l.Ends):
		return "ends in " + terminal.Age(l.Ends.Sub(now)) + " if nothing more comes"
	}
	return "no: its window is over since " + terminal.Moment(l.Ends, now)
}
