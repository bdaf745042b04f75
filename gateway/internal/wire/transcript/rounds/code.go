package rounds

import (
	"github.com/unloop/unloop/gateway/internal/text/offsets"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// Code codes the state of the rounds between two messages.
func (t *Rounds) Code(c *offsets.Coder) {
	message.CodeParts(c, &t.System)
	codeTexts(c, &t.Tools)
	c.Flags(&t.Unnamed)
	if !c.Reads() {
		t.wire.identify(t.digester)
	}
	t.wire.code(c)
	t.chat.code(c)
}

func codeTexts(c *offsets.Coder, texts *[][]byte) { offsets.List(c, texts, c.Bytes) }

// identify computes the keys and sums, which are needed sooner or later, so that the state has them.
func (h *history) identify(d *message.Digester) {
	for i := range h.slots {
		s := &h.slots[i]
		_ = s.key(d)
		for c := 0; c < len(s.calls) && d.Cache != nil; c++ {
			s.identify(d, c)
		}
	}
}

func (h *history) code(c *offsets.Coder) {
	if len(h.kept) > 0 {
		c.Fail()
	}
	offsets.List(c, &h.slots, func(s *slot) { s.code(c) })
	c.Int(&h.next)
	c.Sum((*[16]byte)(&h.before))
	offsets.List(c, &h.strays, func(s *stray) {
		s.result.Code(c)
		message.CodeParts(c, &s.content)
	})
	c.Flags(&h.waiting, &h.answered, &h.spoken)
}

func (s *slot) code(c *offsets.Coder) {
	c.Sum((*[16]byte)(&s.human))
	c.Flags(&s.summary, &s.midturn, &s.closed)
	message.CodeParts(c, &s.calls)
	offsets.List(c, &s.answers, func(a *answer) { a.code(c) })
	message.CodeParts(c, &s.content)
	c.Sum((*[16]byte)(&s.sum))
}

func (a *answer) code(c *offsets.Coder) {
	c.Sum((*[16]byte)(&a.words))
	a.result.Code(c)
	c.Flags(&a.known)
	c.Int(&a.from)
	c.Int(&a.to)
	c.Uint64(&a.sums[0])
	c.Uint64(&a.sums[1])
}

func (a *chat) code(c *offsets.Coder) {
	c.Flags(&a.wire, &a.spoken)
	offsets.List(c, &a.turns, func(t *turn) {
		c.Flags(&t.agent)
		codeTexts(c, &t.texts)
	})
	codeTexts(c, &a.preamble)
}
