package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/doctor"
	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/excerpts"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/openloop"
)

type loopsShowCmd struct {
	client
	formatted
	Admin    string `default:"${default_admin}" placeholder:"URL" env:"-" help:"Admin port of unloop up or of a gateway, which shows what the loop repeats."`
	AdminKey string `secret:"" env:"-" placeholder:"KEY" help:"Unloop key for the admin port, if it requires one."`
	ID       string `arg:"" help:"Id of the loop, as listed by unloop loops; a unique prefix or suffix is enough."`
}

// shownLoop is a loop with its rounds, as JSON.
type shownLoop struct {
	openloop.Record
	// Rounds are the excerpts that the gateway keeps; nil for none.
	Rounds *excerpts.Loop `json:"rounds,omitempty"`
}

// Run shows one loop.
func (c *loopsShowCmd) Run(ctx context.Context, std streams) error {
	var l shownLoop
	err := c.with(ctx, func(js jetstream.JetStream) error {
		loops, err := storedLoops(ctx, js)
		if err != nil {
			return err
		}
		l.Record, err = findLoop(loops, c.ID)
		if errors.Is(err, errNotOpen) {
			l.Record, err = endedLoop(ctx, js, c.ID)
		}
		return err
	})
	if err != nil {
		return err
	}
	l.Rounds = c.rounds(ctx, l.LoopID)
	return c.show(std, l, func(out *printer) {
		showLoop(out, &l.Record, time.Now())
		showRounds(out, l.Rounds)
	})
}

// endedLoop returns the newest ended loop whose id begins or ends with the given one.
func endedLoop(ctx context.Context, js jetstream.JetStream, id string) (openloop.Record, error) {
	var ended []openloop.Record
	get := natskit.DirectGet{Subject: string(event.Resolved) + ".>"}
	for {
		before := get.From
		for msg, err := range get.Ask(ctx, js, schemas.StreamEvents) {
			if err != nil {
				return openloop.Record{}, fmt.Errorf("look for the loop in its history: %w", err)
			}
			get.From = msg.Sequence + 1
			if e, err := event.Parse(msg.Data); err == nil && hasID(e.Data.LoopID, id) {
				l := openloop.Record{Data: e.Data, Tenant: e.TenantID, Project: e.ProjectID, RequestID: e.RequestID, Ends: e.Timestamp, Over: e.Data.Reason}
				ended = append(slices.DeleteFunc(ended, func(l openloop.Record) bool { return l.LoopID == e.Data.LoopID }), l)
			}
		}
		if get.From == before {
			return findLoop(ended, id)
		}
	}
}

// roundsTimeout bounds the request to the admin port, which may be that of another program.
const roundsTimeout = 2 * time.Second

// rounds returns the rounds of a loop from the gateway behind the admin port; nil if it has
// none.
func (c *loopsShowCmd) rounds(ctx context.Context, id string) *excerpts.Loop {
	ctx, cancel := context.WithTimeout(ctx, roundsTimeout)
	defer cancel()
	at := httpAddress(c.Admin) + strings.Replace(excerpts.Path, "{id}", url.PathEscape(id), 1)
	status, body, err := doctor.Get(ctx, at, c.AdminKey)
	var l excerpts.Loop
	if err != nil || status != http.StatusOK || json.Unmarshal(body, &l) != nil || l.LoopID != id || l.At.IsZero() {
		return nil
	}
	return &l
}

// showRounds prints what a loop repeats.
func showRounds(out *printer, l *excerpts.Loop) {
	if l == nil {
		return
	}
	out.printf("\nWhat it repeats, as of %s:\n", terminal.Moment(l.At, time.Now()))
	if l.Prompt != "" {
		out.printf("prompt     %s\n", terminal.Clean(l.Prompt))
	}
	t := terminal.NewTable(terminal.Column{Name: "CALL", MinWidth: 6}, terminal.Column{Name: "ARGUMENTS", Rank: 1, MinWidth: 16}, terminal.Column{Name: "RESULT", Rank: 1, MinWidth: 16})
	for _, r := range l.Rounds {
		t.Row(cmp.Or(r.Tool, "says"), cmp.Or(r.Arguments, r.Said), r.Result)
	}
	if len(l.Rounds) > 0 {
		out.table(t)
	}
}

// showLoop prints a loop for people.
func showLoop(out *printer, l *openloop.Record, now time.Time) {
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
	line("region", l.Region)
	line("tenant", l.Tenant)
	line("project", l.Project)
	line("session", l.Session)
	line("request", l.RequestID)
	out.printf("\n")
	out.table(findingTable(l.Findings))
	if l.Over != "" {
		out.printf("\nThe loop has ended (%s): its requests pass again.\n", l.Over)
		return
	}
	out.printf("\nLet its requests through again:  unloop loops release %s\n", l.LoopID)
	if l.Session != "" {
		out.printf("Stop the session altogether:     unloop block --session %s --for 1h\n", l.Session)
	}
}

func findingTable(findings []event.Finding) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Name: "DETECTOR"}, terminal.Column{Name: "ACTION"}, terminal.Column{Name: "COUNT", Right: true},
		terminal.Column{Name: "TOOL", Rank: 2, MinWidth: 8}, terminal.Column{Name: "RULE", Rank: 3, MinWidth: 8}, terminal.Column{Name: "FINGERPRINT", Rank: 1, MinWidth: 12},
		terminal.Column{Name: "EXCERPT", Rank: 4, MinWidth: 12})
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
	words := plural(s.Requests, "request") + ", about " + plural(s.InputTokens, "input token")
	if s.USD != nil {
		words += dollars(*s.USD)
	}
	return words
}

func openWords(l *openloop.Record, now time.Time) string {
	switch {
	case l.Over != "":
		return "no: it ended at " + terminal.Moment(l.Ends, now) + " (" + terminal.Ago(l.Ends, now) + ")"
	case l.Ends.IsZero():
		return ""
	case now.Before(l.Ends):
		return "ends in " + terminal.Age(l.Ends.Sub(now)) + " if nothing more comes"
	}
	return "no: its window ended at " + terminal.Moment(l.Ends, now)
}
