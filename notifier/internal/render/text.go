package render

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/money"
)

// Field is a name and a value of a loop.
type Field struct{ Name, Value string }

// maxValue bounds the value of a field, in runes: clients choose the names of models, tools and
// tenants. It is the bound of excerpts, too (event.MaxExcerpt).
const maxValue = 200

// Title returns one line about a message.
func Title(m *sink.Message) string {
	if len(m.Events) == 1 {
		return title(&m.Events[0])
	}
	open := Open(m)
	switch {
	case open == 0:
		return fmt.Sprintf("%d loops ended: %s", len(m.Events), clean(m.Key))
	case open == len(m.Events):
		return fmt.Sprintf("%d loops: %s", open, clean(m.Key))
	default:
		return fmt.Sprintf("%s, and %d that ended: %s", plural(open, "loop"), len(m.Events)-open, clean(m.Key))
	}
}

// Open counts the loops of a message that are not resolved.
func Open(m *sink.Message) int {
	n := 0
	for i := range m.Events {
		if m.Events[i].Type != event.Resolved {
			n++
		}
	}
	return n
}

func title(e *event.Event) string {
	who, found := "", cut(clean(e.Data.Facts().Text()))
	if e.TenantID != "" {
		who = " of " + clean(e.TenantID)
	}
	switch {
	case e.Test && e.Type == event.Resolved:
		return "End of the test message from Unloop"
	case e.Test:
		return "Test message from Unloop: no agent goes in circles"
	case e.Type == event.Resolved:
		return fmt.Sprintf("Loop ended: %s, policy %s%s", found, clean(e.Data.Policy), who)
	}
	what := map[string]string{
		"reject": "is stopped", "break": "is stopped", "throttle": "is slowed down", "hint": "got a hint", "warn": "is reported",
	}[e.Data.Action]
	if e.Data.Mode == event.ModeShadow {
		what = "is only watched"
	}
	return fmt.Sprintf("An agent%s goes in circles and %s: %s, policy %s", who, cmp.Or(what, "is reported"), found, clean(e.Data.Policy))
}

// Summary returns one line about what repeats, with the excerpt if there is one.
func Summary(e *event.Event) string {
	if e.Test {
		return "This message only shows that the endpoint works."
	}
	text := clean(e.Data.Facts().Sentence())
	if excerpt := Excerpt(e); excerpt != "" {
		text = strings.TrimSuffix(text, ".") + ": “" + excerpt + "”"
	}
	return text
}

// Excerpt returns the repeated text in one line: that of the finding that caused the action, or
// else the first one. It is empty unless the policy has include_excerpt.
func Excerpt(e *event.Event) string {
	text := ""
	for i := range e.Data.Findings {
		f := &e.Data.Findings[i]
		if text == "" || f.Detector == e.Data.Detector && f.Excerpt != "" {
			text = f.Excerpt
		}
	}
	return cut(strings.Join(strings.Fields(clean(text)), " "))
}

// span formats a duration without zero parts.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Tools returns the names of the tools in an event's findings, separated by commas.
func Tools(e *event.Event) string {
	var names []string
	for _, f := range e.Data.Findings {
		if f.Tool != "" && !strings.Contains(strings.Join(names, ","), f.Tool) {
			names = append(names, clean(f.Tool))
		}
	}
	return cut(strings.Join(names, ", "))
}

// Fields returns the facts about a loop that are not empty.
func Fields(e *event.Event) []Field {
	d := &e.Data
	all := []Field{
		{"Policy", d.Policy}, {"Detector", d.Detector}, {"Action", action(e)}, {"Hits", hits(d)}, {"Tool", Tools(e)},
		{"Tenant", e.TenantID}, {"Project", e.ProjectID}, {"Model", d.Model}, {"Region", d.Region}, {"Since", at(d.FirstSeen)}, {"Saved", Saved(d.Saved)},
		{"Session", d.Session}, {"Caller", d.Caller}, {"Last seen", at(d.LastSeen)}, {"Loop", d.LoopID},
	}
	fields := all[:0]
	for _, f := range all {
		if f.Value = cut(clean(f.Value)); f.Value != "" {
			fields = append(fields, f)
		}
	}
	return fields
}

func action(e *event.Event) string {
	if e.Data.Mode == event.ModeShadow {
		return "none (shadow; would be " + e.Data.Action + ")"
	}
	return e.Data.Action
}

func hits(d *event.Data) string {
	if d.HitCount == 0 {
		return ""
	}
	text := strconv.Itoa(d.HitCount)
	if d.WindowSeconds > 0 {
		text += " in " + span(time.Duration(d.WindowSeconds)*time.Second)
	}
	return text
}

func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// Saved describes what the stopped requests would have cost; "" if none was stopped.
func Saved(s event.Saved) string {
	if s.Requests == 0 {
		return ""
	}
	text := plural(s.Requests, "request")
	if s.InputTokens > 0 {
		text += ", about " + plural(s.InputTokens, "token")
	}
	if s.USD != nil {
		text += ", about " + money.USD(*s.USD)
	}
	return text
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(n) + " " + noun + "s"
}

// grouped formats a number with commas between thousands.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Release returns the command that releases a loop; "" if it has ended.
func Release(e *event.Event) string {
	if e.Type == event.Resolved || e.Data.LoopID == "" || e.Test {
		return ""
	}
	return "unloop loops release " + cut(clean(e.Data.LoopID))
}

// Link returns the address of a loop on the dashboard; "" for none.
func Link(m *sink.Message, e *event.Event) string {
	if m.Page == "" || e.Data.LoopID == "" || e.Test {
		return ""
	}
	return strings.TrimRight(m.Page, "/") + "/#loop=" + url.QueryEscape(e.Data.LoopID)
}

// clean replaces control characters, which services take for line breaks or reject.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError || r == 0x2028 || r == 0x2029 || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 {
			return ' '
		}
		return r
	}, s)
}

// wordJoiner is an invisible character.
const wordJoiner = "\u2060"

// Unlinked returns a text that looks the same, and in which chat services without another way
// to prevent links recognize no URLs and host names.
func Unlinked(s string) string {
	return strings.NewReplacer("://", ":"+wordJoiner+"//", ".", wordJoiner+"."+wordJoiner).Replace(s)
}

// cut returns at most maxValue runes of a text, with … at the end if it is cut.
func cut(s string) string {
	if utf8.RuneCountInString(s) <= maxValue {
		return s
	}
	runes := []rune(s)
	return string(runes[:maxValue-1]) + "…"
}

// Cut returns at most n UTF-16 code units of a text, the unit of most chat services' limits,
// with … at the end if it is cut. It splits no character.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	units, end := 0, -1
	for i, r := range s {
		width := 1
		if r > 0xffff {
			width = 2
		}
		if units+width > n-1 && end < 0 {
			end = i
		}
		units += width
	}
	if units <= n {
		return s
	}
	return s[:end] + "…"
}

// More returns a line about n loops that a message leaves out.
func More(n int) string { return "and " + plural(n, "more loop") + "; see `unloop loops`" }

// Fit returns the body with as many of n loops as fit into sink.MaxBody bytes. build returns the
// body with the first shown of them, which may be 0.
func Fit(n int, build func(shown int) ([]byte, error)) ([]byte, error) {
	for {
		body, err := build(n)
		if err != nil || len(body) <= sink.MaxBody || n == 0 {
			return body, err
		}
		// Fewer in proportion to the excess, and at least one less.
		n = min(n-1, n*sink.MaxBody/len(body))
	}
}
