package rounds

import (
	"slices"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds/textact"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// reminders is the number of consecutive messages, each directly after the results of a round,
// that must come from a harness: no human writes after each round.
const reminders = 3

// user adds a user message. It is a human's, unless it is the result of calls before it
// that have none. Media beside or directly behind results belong to these: many tools can
// answer only with text, and show a picture in the next message.
func (h *history) user(d *message.Digester, parts []message.Part) {
	results := message.Has(parts, message.Result)
	if results || h.answered {
		parts = h.show(d, parts)
	}
	if results {
		return // it is the agent's
	}
	f := d.Cache.Read(message.HumanWay, parts, func() message.Reading { return readHuman(d, parts) })
	if !f.Human || h.waiting && f.Output && h.answerAll(parts) {
		return
	}
	s := h.push(d)
	s.human, s.summary, s.midturn, s.closed = f.Digest, f.Summary, h.answered, h.spoken
}

// readHuman reads what a human wrote in a user message.
func readHuman(d *message.Digester, parts []message.Part) (f message.Reading) {
	text, some := d.Words(parts)
	f.Digest, f.Summary, f.Output = d.Hasher.Said(text), recognize.IsSummary(text), textact.LooksLikeResult(text)
	others := d.Others(parts)
	if f.Human = some || !others.IsZero(); !others.IsZero() {
		f.Digest, f.Output = fingerprint.Chain(f.Digest, others), f.Output || !some
	}
	return f
}

// show moves the media of a message to the newest result, and returns the other parts.
func (h *history) show(d *message.Digester, parts []message.Part) []message.Part {
	beside := func(p message.Part) bool { return p.Kind == message.Other && !p.Inside }
	s := h.newest()
	if s == nil || !slices.ContainsFunc(parts, beside) {
		return parts
	}
	newest := -1
	for c := range s.answers {
		if a := &s.answers[c]; a.known && a.to == len(s.content) {
			newest = c
		}
	}
	if newest < 0 {
		return parts
	}
	d.Parts = d.Parts[:0]
	for _, p := range parts {
		if beside(p) {
			s.content = append(s.content, p)
		} else {
			d.Parts = append(d.Parts, p)
		}
	}
	s.answers[newest].to = len(s.content)
	s.answers[newest].forget()
	return d.Parts
}

// answerAll adds the texts of a user message as results to the calls of the newest round
// that have none.
func (h *history) answerAll(parts []message.Part) bool {
	s := h.newest()
	if s == nil || len(s.calls) == 0 {
		return false
	}
	from := len(s.content)
	for i := range parts {
		if parts[i].Kind == message.Text || parts[i].Kind == message.Other {
			s.content = append(s.content, parts[i])
		}
	}
	for c := range s.answers {
		if a := &s.answers[c]; !a.known {
			a.known, a.from, a.to = true, from, len(s.content)
			a.forget()
		}
	}
	return true
}

// newest returns the newest slot; nil for none.
func (h *history) newest() *slot {
	if len(h.slots) == 0 {
		return nil
	}
	return h.slot(len(h.slots) - 1)
}

// follow updates the state on which the next message depends.
func (h *history) follow(role message.Role, parts []message.Part) {
	h.waiting = role == message.Assistant && message.Has(parts, message.Call)
	h.answered = message.Has(parts, message.Result)
	switch role {
	case message.Assistant:
		h.spoken = !h.waiting && (h.spoken || speaks(parts))
	case message.User, message.Tool:
		h.spoken = false
	case message.System:
	}
}

// speaks reports whether a message has words of the model's own.
func speaks(parts []message.Part) bool {
	return slices.ContainsFunc(parts, func(p message.Part) bool {
		return p.Kind == message.Text && !p.Inside && len(p.Value) > len(`""`) && !InPlace(&p)
	})
}

// withoutReminders marks the messages of a harness that writes after each round, so that
// they are not taken for a human's.
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
