package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/unloop/unloop/deploy/replay"
	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas/money"
)

// actionOrder is the order in which actions are listed.
var actionOrder = []string{"refuse", "break", "reject", "throttle", "hint", "warn", "allow", "exempt"}

// printReport prints a report of a replay, with up to limit entries of each list.
func printReport(out *printer, r *replay.Report, limit int) {
	printSummary(out, r)
	printOperators(out, r, limit)
	printIncidents(out, r, limit)
	printSessions(out, r, limit)
	for i, s := range r.Suggestions {
		if i == 0 {
			out.printf("\nSUGGESTIONS\n")
		}
		out.printf("  policy %s: %s %s, now %s: %s.\n", s.Policy, s.Setting, s.Better, s.Now, s.Why)
	}
}

func printSummary(out *printer, r *replay.Report) {
	by := r.Bundle
	if r.Embedder != "" {
		by += " and embedder " + r.Embedder
	}
	out.printf("%s in %s of %s, evaluated by bundle %s.\n", plural(r.Requests, "request"), plural(r.Sessions, "session"), plural(r.Files, "file"), by)
	if r.From != nil {
		out.printf("They were made from %s to %s.\n", stamp(*r.From), stamp(*r.To))
	}
	var did []string
	for _, action := range actionOrder {
		if n := r.Actions[action]; n > 0 {
			did = append(did, fmt.Sprintf("%s %d", action, n))
		}
	}
	if len(did) > 0 {
		out.printf("Would have been done: %s.\n", strings.Join(did, ", "))
	}
	out.printf("Would have been saved: %s.\n", saved(&r.Saved, &r.Spent))
	for _, n := range []struct {
		count int
		text  string
	}{
		{r.Limited, "would have met a rule's limit"}, {r.Unwatched, "no policy looks at"}, {r.Unreadable, "could not be read"},
		{r.OutOfOrder, "are older than the one before and were evaluated at its time; sort the recording by time"},
	} {
		if n.count > 0 {
			out.printf("Note: %s %s.\n", plural(n.count, "entry"), n.text)
		}
	}
}

// saved describes savings as a share of all costs.
func saved(c, all *replay.Cost) string {
	s := fmt.Sprintf("%s, %s of %s tokens", plural(c.Requests, "request"), thousands(c.InputTokens+c.OutputTokens), thousands(all.InputTokens+all.OutputTokens))
	if c.Requests > c.Unpriced || all.Requests > all.Unpriced {
		s += ", " + money.USD(c.USD) + " of " + money.USD(all.USD)
	}
	var but []string
	for _, n := range []struct {
		count       int
		some, every string
	}{{all.Estimated, "the tokens of %s estimated", "tokens estimated"}, {all.Unpriced, "%s without a price", "without prices"}} {
		switch n.count {
		case 0:
		case all.Requests:
			but = append(but, n.every)
		default:
			but = append(but, fmt.Sprintf(n.some, plural(n.count, "request")))
		}
	}
	if len(but) > 0 {
		s += " (" + strings.Join(but, ", ") + ")"
	}
	return s
}

func printOperators(out *printer, r *replay.Report, limit int) {
	if len(r.Operator) == 0 {
		return
	}
	out.printf("\n")
	shown := r.Operator[:min(limit, len(r.Operator))]
	t := terminal.NewTable(terminal.Column{Name: "OPERATOR"}, terminal.Column{Name: "REASON", MinWidth: 12}, terminal.Column{Name: "REQUESTS", Right: true},
		terminal.Column{Name: "TOKENS", Right: true}, terminal.Column{Name: "FIRST", Rank: 1}, terminal.Column{Name: "LAST", Rank: 2})
	for _, o := range shown {
		t.Row(strings.ReplaceAll(o.Action, "_", " "), o.Reason, thousands(o.Cost.Requests), thousands(o.Cost.InputTokens+o.Cost.OutputTokens), where(o.First), where(o.Last))
	}
	out.table(t)
	printMore(out, len(r.Operator)-len(shown), "reason")
}

func printIncidents(out *printer, r *replay.Report, limit int) {
	if len(r.Incidents) == 0 {
		out.printf("\nNothing would have fired.\n")
		return
	}
	out.printf("\n")
	shown := r.Incidents[:min(limit, len(r.Incidents))]
	t := terminal.NewTable(terminal.Column{Name: "WHEN", Rank: 2}, terminal.Column{Name: "WHERE", Rank: 1}, terminal.Column{Name: "SESSION", MinWidth: 8},
		terminal.Column{Name: "POLICY", Rank: 3, MinWidth: 8}, terminal.Column{Name: "DETECTOR"}, terminal.Column{Name: "ACTION"},
		terminal.Column{Name: "COUNT", Right: true}, terminal.Column{Name: "FLAGGED", Rank: 4, Right: true}, terminal.Column{Name: "STOPPED", Right: true})
	for _, i := range shown {
		when, action := "", i.Action
		if i.First.Time != nil {
			when = stamp(*i.First.Time)
		}
		if i.Mode == "shadow" {
			action = "would " + action
		}
		t.Row(when, where(i.First), short(i.Session), i.Policy, strings.Join(i.Detectors, ","), action,
			strconv.Itoa(i.Count), strconv.Itoa(i.Requests), strconv.Itoa(i.Saved.Requests))
	}
	out.table(t)
	out.printf("\nWHY\n")
	for _, i := range shown {
		out.printf("  %s: %s\n", where(i.First), i.Why)
	}
	printMore(out, len(r.Incidents)-len(shown), "incident")
}

func printSessions(out *printer, r *replay.Report, limit int) {
	if len(r.Flagged) == 0 {
		return
	}
	out.printf("\nSESSIONS TO LOOK AT\n")
	shown := r.Flagged[:min(limit, len(r.Flagged))]
	t := terminal.NewTable(terminal.Column{Name: "SESSION", MinWidth: 8}, terminal.Column{Name: "REQUESTS", Right: true},
		terminal.Column{Name: "FLAGGED", Right: true}, terminal.Column{Name: "STOPPED", Right: true}, terminal.Column{Name: "FIRST FINDING", Rank: 1})
	for _, s := range shown {
		t.Row(short(s.Name), strconv.Itoa(s.Requests), strconv.Itoa(s.Flagged), strconv.Itoa(s.Stopped), where(s.First))
	}
	out.table(t)
	printMore(out, len(r.Flagged)-len(shown), "session")
}

// printMore prints how many entries of a list are not shown.
func printMore(out *printer, n int, noun string) {
	if n > 0 {
		out.printf("  … and %s; --all shows them\n", plural(n, "more "+noun))
	}
}

func stamp(t time.Time) string { return t.Local().Format(time.DateTime) }

func where(p replay.Place) string { return fmt.Sprintf("%s:%d request %d", p.File, p.Line, p.Request) }

// short truncates a long name at its beginning: the end of a path or an id says more.
func short(name string) string {
	const longest = 32
	if runes := []rune(name); len(runes) > longest {
		return "…" + string(runes[len(runes)-longest+1:])
	}
	return name
}
