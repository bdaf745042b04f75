package transcript

import (
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// maxRecent is the minimum number of newest messages that are kept, to find the turn that
// a result belongs to, and rounds that repeat themselves.
const maxRecent = 32

// kept returns the i-th of the kept messages, the oldest first.
func (t *Transcript) kept(i int) *kept { return &t.tail[(t.next+i)%len(t.tail)] }

// digest returns the digests of the i-th of the kept messages.
func (t *Transcript) digest(i int) message.Digests {
	m := t.kept(i)
	switch {
	case m.digests != (message.Digests{}):
	case t.rounds.Continues: // the digests stay with the message
		m.digests = t.digester.MessageOnce(m.role, m.parts)
	default:
		m.digests = t.digester.Message(m.role, m.parts)
	}
	return m.digests
}

// Recent identifies the n newest messages together with the calls that they answer: the
// whole turn of the model that the oldest result among them belongs to, those of its
// calls that only the provider has, and the rounds since the same calls were made before.
func (t *Transcript) Recent(n int) fingerprint.Digest {
	var sum fingerprint.Digest
	from, text := max(0, len(t.tail)-n), t.rounds.InText()
	for from > 0 && t.continues(from, text) {
		from--
	}
	if from == 0 && t.messages > len(t.tail) && len(t.said) > 0 { // a turn of very many calls
		sum = fingerprint.Chain(sum, t.digester.Message(message.Assistant, t.said).Strict)
	}
	rounds := 0
	for i := from; i < len(t.tail); i++ {
		sum = fingerprint.Chain(sum, t.digest(i).Strict)
		if m := t.kept(i); m.role == message.Assistant && (text || message.Has(m.parts, message.Call)) {
			rounds++
		}
	}
	for _, d := range [...]fingerprint.Digest{t.elsewhere(from), t.rounds.Since(rounds)} {
		if !d.IsZero() {
			sum = fingerprint.Chain(sum, d)
		}
	}
	return sum
}

// continues reports whether a kept message continues the round of the message before it:
// by a result, by further words of the model, or by the answer to an agent that acts in
// text.
func (t *Transcript) continues(i int, text bool) bool {
	m, before := t.kept(i), t.kept(i-1)
	return message.Has(m.parts, message.Result) ||
		before.role == message.Assistant && (m.role == message.Assistant || text && m.role == message.User)
}

// elsewhere identifies the calls of the results from the i-th kept message on, as far as
// the messages do not have them.
func (t *Transcript) elsewhere(from int) (sum fingerprint.Digest) {
	for i := from; i < len(t.tail) && t.rounds.Strays(); i++ {
		m := t.kept(i)
		for p := range m.parts {
			sum = t.rounds.Elsewhere(sum, &m.parts[p])
		}
	}
	return sum
}

// Rounds returns the number of identical rounds at the end of the conversation: of the
// model's words and calls with their answers. It is 0 for a conversation that ends with
// words of the model, and covers only the messages that are kept.
func (t *Transcript) Rounds() int {
	end := len(t.tail)
	newest, from := t.roundBefore(end)
	n := 0
	for round := newest; from >= 0 && !round.IsZero() && round == newest; round, from = t.roundBefore(from) {
		n++
	}
	return n
}

// roundBefore identifies the round that ends before the kept message end, and returns
// where it begins. It is zero if no whole round ends there.
func (t *Transcript) roundBefore(end int) (sum fingerprint.Digest, from int) {
	i := end
	for i > 0 && t.kept(i-1).role != message.Assistant {
		i--
	}
	replied := i
	for i > 0 && t.kept(i-1).role == message.Assistant {
		i--
	}
	if replied == end || i == replied {
		return fingerprint.Digest{}, i
	}
	for k := i; k < end; k++ {
		sum = fingerprint.Chain(sum, t.digest(k).Strict)
	}
	return sum, i
}
