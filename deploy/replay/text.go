package replay

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// order is how actions are listed.
var order = []string{"refuse", "break", "reject", "throttle", "hint", "warn", "allow", "exempt"}

// WriteText writes the report for people, with at most so many incidents and
// sessions; 0 for all.
func (r *Report) WriteText(w io.Writer, most int) error {
	out := &lines{w: w}
	r.writeSummary(out)
	r.writeOperated(out, most)
	r.writeIncidents(out, most)
	r.writeSessions(out, most)
	for i, s := range r.Suggestions {
		if i == 0 {
			out.printf("\nSUGGESTIONS\n")
		}
		out.printf("  policy %s: %s %s, now %s: %s.\n", s.Policy, s.Setting, s.Better, s.Now, s.Why)
	}
	return out.err
}

func (r *Report) writeSummary(out *lines) {
	by := r.Bundle
	if r.Embedder != "" {
		by += " and embedder " + r.Embedder
	}
	out.printf("%s in %s of %s, judged by bundle %s.\n", plural(r.Requests, "request"), plural(r.Sessions, "session"), plural(r.Files, "file"), by)
	if r.From != nil {
		out.printf("They were made from %s to %s.\n", stamp(*r.From), stamp(*r.To))
	}
	var did []string
	for _, action := range order {
		if n := r.Actions[action]; n > 0 {
			did = append(did, fmt.Sprintf("%s %d", action, n))
		}
	}
	if len(did) > 0 {
		out.printf("Would have been done: %s.\n", strings.Join(did, ", "))
	}
	out.printf("Would have been saved: %s.\n", r.Saved.text(&r.Spent))
	for _, n := range []struct {
		count int
		text  string
	}{
		{r.Limited, "would have met a rule's limit"}, {r.Unwatched, "no policy looks at"}, {r.Unreadable, "could not be read"},
		{r.OutOfOrder, "are older than the one before and were judged as if made at once; sort the recording by time"},
	} {
		if n.count > 0 {
			out.printf("Note: %s %s.\n", plural(n.count, "entry"), n.text)
		}
	}
}

// text says what was saved, out of all that was spent.
func (c *Cost) text(all *Cost) string {
	s := fmt.Sprintf("%s, %s of %s tokens", plural(c.Requests, "request"), thousands(c.InputTokens+c.OutputTokens), thousands(all.InputTokens+all.OutputTokens))
	if c.Requests > c.Unpriced || all.Requests > all.Unpriced {
		s += fmt.Sprintf(", $%.2f of $%.2f", c.USD, all.USD)
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

// writeOperated lists what operators had done with requests.
func (r *Report) writeOperated(out *lines, most int) {
	if len(r.Operator) == 0 {
		return
	}
	out.printf("\n")
	table := out.table("OPERATOR\tREASON\tREQUESTS\tTOKENS\tFIRST\tLAST")
	shown := head(r.Operator, most)
	for _, o := range shown {
		table.printf("%s\t%s\t%d\t%s\t%s\t%s\n", strings.ReplaceAll(o.Action, "_", " "), cmp.Or(o.Reason, "-"), o.Cost.Requests,
			thousands(o.Cost.InputTokens+o.Cost.OutputTokens), o.First.where(), o.Last.where())
	}
	table.flush(out)
	out.more(len(r.Operator)-len(shown), "reason")
}

func (r *Report) writeIncidents(out *lines, most int) {
	if len(r.Incidents) == 0 {
		out.printf("\nNothing would have fired.\n")
		return
	}
	out.printf("\n")
	table := out.table("WHEN\tWHERE\tSESSION\tPOLICY\tDETECTOR\tACTION\tCOUNT\tFLAGGED\tSTOPPED")
	shown := head(r.Incidents, most)
	for _, i := range shown {
		action := i.Action
		if i.Mode == "shadow" {
			action = "would " + action
		}
		table.printf("%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\n", i.First.when(), i.First.where(), short(i.Session), i.Policy,
			strings.Join(i.Detectors, ","), action, i.Count, i.Requests, i.Saved.Requests)
	}
	table.flush(out)
	out.printf("\nWHY\n")
	for _, i := range shown {
		out.printf("  %s: %s\n", i.First.where(), i.Why)
	}
	out.more(len(r.Incidents)-len(shown), "incident")
}

func (r *Report) writeSessions(out *lines, most int) {
	if len(r.Flagged) == 0 {
		return
	}
	out.printf("\nSESSIONS TO LOOK AT\n")
	table := out.table("SESSION\tREQUESTS\tFLAGGED\tSTOPPED\tFIRST FINDING")
	shown := head(r.Flagged, most)
	for _, s := range shown {
		table.printf("%s\t%d\t%d\t%d\t%s\n", short(s.Name), s.Requests, s.Flagged, s.Stopped, s.First.where())
	}
	table.flush(out)
	out.more(len(r.Flagged)-len(shown), "session")
}

func head[T any](list []T, most int) []T {
	if most > 0 && len(list) > most {
		return list[:most]
	}
	return list
}

func stamp(t time.Time) string { return t.Local().Format(time.DateTime) }

func (p Place) when() string {
	if p.Time == nil {
		return "-"
	}
	return stamp(*p.Time)
}

func (p Place) where() string { return fmt.Sprintf("%s:%d request %d", p.File, p.Line, p.Request) }

// short is the end of a long name, which tells more of a path or an id.
func short(name string) string {
	const longest = 32
	if runes := []rune(name); len(runes) > longest {
		return "…" + string(runes[len(runes)-longest+1:])
	}
	return name
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		what = stem + "ie"
	}
	return thousands(n) + " " + what + "s"
}

// thousands writes a number with a space before each three digits.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// lines remembers the first error of a row of prints.
type lines struct {
	w   io.Writer
	err error
}

func (l *lines) printf(format string, args ...any) {
	if l.err == nil {
		_, l.err = fmt.Fprintf(l.w, format, args...)
	}
}

// table begins a table; flush ends it.
func (l *lines) table(header string) *lines {
	t := &lines{w: tabwriter.NewWriter(l.w, 0, 0, 2, ' ', 0), err: l.err}
	t.printf("%s\n", header)
	return t
}

func (l *lines) flush(to *lines) {
	if to.err = l.err; to.err == nil {
		if table, ok := l.w.(*tabwriter.Writer); ok {
			to.err = table.Flush()
		}
	}
}

func (l *lines) more(n int, what string) {
	if n > 0 {
		l.printf("  … and %s; --all shows them\n", plural(n, "more "+what))
	}
}
