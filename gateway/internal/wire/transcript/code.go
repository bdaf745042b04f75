package transcript

import (
	"github.com/unloop/unloop/gateway/internal/text/offsets"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// Code codes the state of the transcript between two messages. It is decoded into a transcript with
// the same Options.
func (t *Transcript) Code(c *offsets.Coder) {
	if t.discard {
		c.Fail()
	}
	t.rounds.Code(c)
	c.Int(&t.messages)
	message.CodeParts(c, &t.open)
	offsets.List(c, &t.tail, func(k *kept) {
		offsets.Byte(c, &k.role)
		message.CodeParts(c, &k.parts)
	})
	c.Int(&t.next)
	c.Flags(&t.preamble, &t.opened, &t.summed, &t.spoken)
	c.Sum((*[16]byte)(&t.rules))
	c.Sum((*[16]byte)(&t.first))
	message.CodeParts(c, &t.begun)
	c.Int(&t.begunTo)
	t.code(c)
	offsets.List(c, &t.digests, c.Uint64)
	c.Uint64(&t.past)
	offsets.List(c, &t.earlier, func(e *exchange) { e.code(c) })
	c.Int(&t.oldest)
}

func (e *exchange) code(c *offsets.Coder) {
	message.CodeParts(c, &e.said)
	message.CodeParts(c, &e.answers)
}
