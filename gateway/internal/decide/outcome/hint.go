package outcome

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/policy"
)

// Hint returns the text that is added to a forwarded request, and its position. The text is
// "" if there is no hint, or if the finding's policy is no longer in force.
func (o *Outcome) Hint(now time.Time) (text, position string) {
	if o.Finding.GetAction() != checkpb.Action_ACTION_HINT {
		return "", ""
	}
	p := o.of.Policies.ByID(o.Finding.GetPolicy())
	if p == nil {
		return "", ""
	}
	return o.of.hintText(p, o.Finding, now), p.Hint.Position
}

// hintText returns the policy's own text, or else what repeats, how often and since when,
// and what to try.
func (c *Case) hintText(p *bundle.Policy, f *checkpb.Finding, now time.Time) string {
	if p.Hint.Text != policy.DefaultHint {
		return p.Hint.Text
	}
	said := sentence(f.Hint())
	if f.GetSinceMs() > 0 {
		first := now.Add(-time.Duration(f.GetSinceMs()) * time.Millisecond)
		said += " The first time was at " + first.UTC().Format("15:04:05") + " UTC."
	}
	if f.GetDetector() != finding.Tool && f.GetDetector() != finding.Cycle {
		return said + " " + policy.DefaultHint
	}
	// The messages of these two detectors say what to do.
	if n := c.roundsSince(f); n > 1 {
		said += fmt.Sprintf(" The first time was %d rounds ago.", n)
	}
	return said
}

// sentence returns a text with a capital letter and a full stop.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	if strings.ContainsAny(text[len(text)-1:], ".!?") {
		return text
	}
	return text + "."
}

// roundsSince returns how many rounds ago one of the newest round's calls was first made
// since the last human message, as far as the request shows; 0 for none.
func (c *Case) roundsSince(f *checkpb.Finding) (rounds int) {
	for _, w := range c.Check.GetWatches() {
		items := w.GetHistory().GetItems()
		if w.GetPolicy() != f.GetPolicy() || len(items) == 0 {
			continue
		}
		newest := items[len(items)-1].GetCalls()
		for n := 1; n < len(items); n++ {
			it := items[len(items)-1-n]
			if len(it.GetCalls()) == 0 && !it.GetSummary() {
				break
			}
			if sharesCall(it.GetCalls(), newest) {
				rounds = n
			}
		}
	}
	return rounds
}

func sharesCall(a, b []*checkpb.ToolCall) bool {
	return slices.ContainsFunc(a, func(c *checkpb.ToolCall) bool {
		return slices.ContainsFunc(b, func(d *checkpb.ToolCall) bool { return bytes.Equal(c.GetCall(), d.GetCall()) })
	})
}
