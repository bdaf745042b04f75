package transcript

import (
	"bytes"

	"github.com/unloop/unloop/gateway/internal/provider/transcript/textact"
	"github.com/unloop/unloop/gateway/internal/recognize"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// reminders is how many messages in a row, each right behind the results of one
// round, tell a harness from a human: who writes after each round is no human.
const reminders = 3

// said is the digest by which a human message is known within its session.
// Numbers do not matter: a harness counts in its reminders.
func (d *digester) said(parts []Part) fingerprint.Digest {
	sum := recognize.Said(d.text)
	if others := d.others(parts); !others.IsZero() {
		sum = fingerprint.Chain(sum, others)
	}
	return sum
}

// user takes a user message. It is a human's, unless it is the result of the calls
// before it that have none.
func (h *history) user(d *digester, parts []Part) {
	if _, human := d.human(parts); !human {
		return
	}
	if h.waiting && textact.LooksLikeResult(bytes.Clone(d.text)) && h.answerAll(parts) {
		return
	}
	sum, summary := d.said(parts), recognize.IsSummary(d.text)
	s := h.push(d)
	s.human, s.summary, s.midturn = sum, summary, h.answered
}

// answerAll gives the texts of a user message to the calls of the newest round that
// have no result.
func (h *history) answerAll(parts []Part) bool {
	s := h.newest()
	if s == nil || len(s.calls) == 0 {
		return false
	}
	from := len(s.content)
	for i := range parts {
		if parts[i].Kind == Text {
			s.content = append(s.content, parts[i])
		}
	}
	for c := range s.answers {
		if !s.answers[c].known {
			s.answers[c] = answer{known: true, from: from, to: len(s.content)}
		}
	}
	return true
}

// newest is the newest slot; nil for none.
func (h *history) newest() *slot {
	switch n := len(h.slots); {
	case n == 0:
		return nil
	case n < h.limit:
		return &h.slots[n-1]
	default:
		return &h.slots[(h.next+n-1)%n]
	}
}

// follow notes what the message was, for the next one.
func (h *history) follow(role Role, parts []Part) {
	calls, results := false, false
	for i := range parts {
		calls = calls || parts[i].Kind == Call
		results = results || parts[i].Kind == Result
	}
	h.waiting, h.answered = role == Assistant && calls, results
}

// withoutReminders marks the messages of a harness that writes after each round as
// none that a human sent.
func withoutReminders(items []Item, midturn []bool) {
	run := 0
	for i := range items {
		switch {
		case midturn[i]:
			run++
		case len(items[i].Calls) == 0 || i > 0 && len(items[i-1].Calls) > 0:
			run = 0
		}
		if run >= reminders {
			items[i].Summary = items[i].Summary || midturn[i]
		}
	}
}
