package transcript

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// maxAnswers is the maximum number of parts of the newest answer. The oldest are dropped
// first.
const maxAnswers = 512

// exchange is what the agent said and called, and what it was answered.
type exchange struct{ said, answers []message.Part }

// extend adds the open message to the newest exchange.
func (t *Transcript) extend(role message.Role) {
	switch role {
	case message.Assistant:
		t.speak()
	case message.User, message.Tool:
		if over := len(t.answers) + len(t.open) - maxAnswers; over > 0 {
			t.answers = append(t.answers[:0], t.answers[min(over, len(t.answers)):]...)
		}
		t.answers = append(t.answers, t.open[max(0, len(t.open)-maxAnswers):]...)
	case message.System:
	}
}

// speak adds a message of the agent's, without texts that a gateway wrote in the model's
// place, alone or before the model's own parts in the same turn.
func (t *Transcript) speak() {
	ours, others := 0, 0
	for i := range t.open {
		if rounds.InPlace(&t.open[i]) {
			ours++
		} else if t.open[i].Kind != message.Field {
			others++
		}
	}
	if ours > 0 && others == 0 {
		return
	}
	if len(t.answers) > 0 {
		t.remember()
	}
	t.said, t.answers = append(t.said[:0], t.open...), t.answers[:0]
	if ours > 0 {
		t.said = slices.DeleteFunc(t.said, func(p message.Part) bool { return rounds.InPlace(&p) })
	}
}

// Exchange returns the newest exchange as text: the agent's last words and calls, with
// their arguments, and the answer of tools or of a human. Of each it returns at most the
// last limit bytes, and a word for its media. said is empty if there is no message of the
// agent's.
func (t *Transcript) Exchange(limit int) (said, answered string) {
	return t.words(t.said, limit), t.words(t.answers, limit)
}

const (
	// maxDigests is the maximum number of exchanges before the newest one that have digests.
	maxDigests = 100
	// usualDigests is room for the digests of most conversations.
	usualDigests = 20
	// MaxEarlier is the maximum number of exchanges before the newest one whose words are kept.
	// Up to that, it is twice Options.Exchanges, because not every exchange is compared.
	MaxEarlier = 16
)

// remember keeps the exchange that ends, and its digest.
func (t *Transcript) remember() {
	if t.opts.Exchanges == 0 {
		return
	}
	if len(t.digests) >= 4*min(t.opts.Exchanges, maxDigests) { // the older half goes at once
		t.digests = append(t.digests[:0], t.digests[len(t.digests)/2:]...)
	}
	if t.digests == nil {
		t.digests = make([]uint64, 0, usualDigests)
	}
	digest := t.exchangeDigest()
	t.digests = append(t.digests, digest)
	if len(t.said) > 0 {
		t.past = chain(t.past, digest)
	}
	if len(t.earlier) < min(2*t.opts.Exchanges, MaxEarlier) {
		t.earlier = append(t.earlier, t.exchange)
		t.exchange = exchange{t.buffer(), t.buffer()}
		return
	}
	t.exchange, t.earlier[t.oldest] = t.earlier[t.oldest], t.exchange
	t.oldest = (t.oldest + 1) % len(t.earlier)
}

// Digests returns the digest of the newest exchange, those of at most Options.Exchanges
// before it, and those of the exchanges before these that have their words, newest first.
// An exchange has the same digest in all requests that show it as it was.
func (t *Transcript) Digests() (newest uint64, earlier, further []uint64) {
	all := slices.Clone(t.digests)
	slices.Reverse(all)
	n := min(t.opts.Exchanges, len(all))
	return t.exchangeDigest(), all[:n:n], all[n:max(n, len(t.earlier))]
}

// Exchanges returns a name for all exchanges of the agent, and one for those before the newest;
// 0 for none. When a conversation continues, its earlier name is the name before.
func (t *Transcript) Exchanges() (all, before uint64) {
	if t.opts.Exchanges == 0 || len(t.said) == 0 {
		return 0, 0
	}
	return chain(t.past, t.exchangeDigest()), t.past
}

// chain adds the digest of an exchange to the name of those before it.
func chain(before, digest uint64) uint64 {
	var both [16]byte
	binary.LittleEndian.PutUint64(both[:], before)
	binary.LittleEndian.PutUint64(both[8:], digest)
	return xxhash.Sum64(both[:])
}

// Earlier returns the number of exchanges before the newest one that have their words.
func (t *Transcript) Earlier() int { return len(t.earlier) }

// EarlierExchange is Exchange for the i-th exchange before the newest one, from 0.
func (t *Transcript) EarlierExchange(i, limit int) (said, answered string) {
	e := &t.earlier[(t.oldest+len(t.earlier)-1-i)%len(t.earlier)]
	return t.words(e.said, limit), t.words(e.answers, limit)
}

// exchangeDigest covers the values of texts and calls, without reminders, and media.
func (t *Transcript) exchangeDigest() uint64 {
	var h xxhash.Digest
	h.Reset()
	for _, half := range [...][]message.Part{t.said, t.answers} {
		for i := range half {
			addPart(&h, &half[i])
		}
		if media := t.digester.Others(half); !media.IsZero() {
			addField(&h, byte(message.Other), media[:])
		}
		addField(&h, 0xff, nil)
	}
	return h.Sum64()
}

func addPart(h *xxhash.Digest, p *message.Part) {
	if p.Kind != message.Call && p.Kind != message.Text || p.Kind == message.Text && message.IsReminder(bytes.TrimSpace(bytes.Trim(p.Value, `"`))) {
		return
	}
	addField(h, byte(p.Kind), p.Name)
	addField(h, byte(p.Kind), p.Value)
}

// addField adds a field behind its kind and length. A hash's Write never fails.
func addField(h *xxhash.Digest, kind byte, field []byte) {
	var before [9]byte
	before[0] = kind
	binary.LittleEndian.PutUint64(before[1:], uint64(len(field)))
	_, _ = h.Write(before[:])
	_, _ = h.Write(field)
}

// Human returns the whole answer of a human in the newest exchange: its text, which is
// valid until the next call, and the digest of its media. Both are empty if tools answered.
func (t *Transcript) Human() (text []byte, media fingerprint.Digest) {
	if slices.ContainsFunc(t.answers, func(p message.Part) bool { return p.Kind == message.Result || p.Inside }) {
		return nil, media
	}
	media = t.digester.Others(t.answers)
	return t.join(t.answers), media
}

// words returns the end of join, and a word for the media.
func (t *Transcript) words(parts []message.Part, limit int) string {
	text := lastBytes(t.join(parts), limit)
	if media := t.digester.Others(parts); !media.IsZero() {
		return string(message.AppendMedia([]byte(text), media))
	}
	return text
}

// join returns texts and calls line by line, without reminders, in the digester's buffer.
func (t *Transcript) join(parts []message.Part) []byte {
	text := t.digester.Buffer[:0]
	for i := range parts {
		start := len(text)
		if start > 0 {
			text = append(text, '\n')
		}
		from := len(text)
		text = t.appendWords(text, &parts[i])
		if own := bytes.TrimSpace(text[from:]); len(own) == 0 || message.IsReminder(own) {
			text = text[:start]
		}
	}
	t.digester.Buffer = text
	return text
}

func (t *Transcript) appendWords(dst []byte, p *message.Part) []byte {
	switch p.Kind {
	case message.Text:
		return message.AppendValue(dst, p.Value)
	case message.Call:
		if p.Known != nil {
			return append(dst, p.Known.Tool...)
		}
		dst = append(append(dst, p.Name...), ' ')
		return append(dst, t.digester.Arguments(p)...)
	default:
		return dst
	}
}

// lastBytes returns the end of text, from the beginning of a character on.
func lastBytes(text []byte, limit int) string {
	if len(text) > limit {
		text = text[len(text)-limit:]
		for len(text) > 0 && !utf8.RuneStart(text[0]) {
			text = text[1:]
		}
	}
	return string(text)
}
