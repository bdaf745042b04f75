package transcript

import (
	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Complaints returns how many answers at the end of the conversation, each without a
// call, brought the same complaint about what they lack, numbers aside. It covers only the
// messages that are kept.
func (t *Transcript) Complaints() (n int) {
	var complaint fingerprint.Digest
	end := len(t.tail)
	for i := end - 1; i > 0; n++ {
		m := t.kept(i)
		if m.role != message.User || message.Has(m.parts, message.Result) {
			break
		}
		text, some := t.digester.Words(m.parts)
		said := t.digester.Hasher.Said(text)
		if n == 0 {
			complaint = said
		}
		from := t.answersBefore(i)
		if !some || said != complaint || from == i {
			break
		}
		i = from - 1
	}
	if n < 2 {
		return n
	}
	if text, _ := t.digester.Words(t.kept(end - 1).parts); !recognize.IsComplaint(text) {
		return 0
	}
	return n
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
