package transcript

import (
	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Complaints returns how many of the model's answers at the end of the conversation, all without
// calls, a user rejected with the same complaint, apart from numbers. It covers only the messages
// that are kept.
func (t *Transcript) Complaints() (n int) {
	var complaint fingerprint.Digest
	end := len(t.tail)
	for i := end - 1; i > 0; n++ {
		m := t.kept(i)
		if m.role != message.User || message.Has(m.parts, message.Result) {
			break
		}
		said := t.heard(m.parts)
		if n == 0 {
			complaint = said.Digest
		}
		from := t.answersBefore(i)
		if !said.Human || said.Digest != complaint || from == i {
			break
		}
		i = from - 1
	}
	if n > 1 && !t.complains(t.kept(end-1).parts) {
		return 0
	}
	return n
}

// heard reads the words of a message without the numbers in them.
func (t *Transcript) heard(parts []message.Part) message.Reading {
	return t.digester.Cache.Read(message.HeardWay, parts, func() message.Reading {
		text, some := t.digester.Words(parts)
		return message.Reading{Digest: t.digester.Hasher.Said(text), Human: some}
	})
}

// complains reports whether the words of a message are a complaint.
func (t *Transcript) complains(parts []message.Part) bool {
	return t.digester.Cache.Read(message.ComplaintWay, parts, func() message.Reading {
		text, _ := t.digester.Words(parts)
		return message.Reading{Failed: recognize.IsComplaint(text)}
	}).Failed
}

// answersBefore returns where the answers before the i-th kept message begin; i if there
// are none, or with a call.
func (t *Transcript) answersBefore(i int) int {
	from := i
	for from > 0 && t.kept(from-1).role == message.Assistant {
		from--
		if message.Has(t.kept(from).parts, message.Call) {
			return i
		}
	}
	return from
}
