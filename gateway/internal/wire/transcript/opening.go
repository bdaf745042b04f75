package transcript

import (
	"bytes"
	"time"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// instructions returns the digest of all instructions before the conversation.
func (t *Transcript) instructions() fingerprint.Digest {
	if len(t.rounds.System) == 0 {
		return t.rules
	}
	if t.instructed.IsZero() {
		t.instructed = fingerprint.Chain(fingerprint.Digest{}, t.digester.Message(message.System, t.rounds.System).Strict)
		if !t.rules.IsZero() {
			t.instructed = fingerprint.Chain(t.instructed, t.rules)
		}
	}
	return t.instructed
}

// Opening identifies the conversation by its instructions and its first human message.
// It is zero if there is neither.
func (t *Transcript) Opening() fingerprint.Digest {
	rules := t.instructions()
	if rules.IsZero() && t.first.IsZero() {
		return fingerprint.Digest{}
	}
	return fingerprint.Chain(rules, t.first)
}

// Compacted reports whether the conversation begins with a summary of an earlier one.
func (t *Transcript) Compacted() bool { return t.summed }

// Begins reports whether the model has not said anything yet, not even in a scratchpad.
func (t *Transcript) Begins() bool { return !t.spoken && !t.rounds.InText() }

// Beginning identifies the conversation by its instructions and its first human message,
// without clocks and ids.
func (t *Transcript) Beginning() fingerprint.Digest {
	f := t.digester.Cache.Read(message.BeginningWay, t.begun, func() message.Reading {
		return message.Reading{Digest: t.firstMessage()}
	})
	return fingerprint.Chain(t.instructions(), f.Digest)
}

// BeginningText is Beginning without the first human message if that is among the n newest
// messages.
func (t *Transcript) BeginningText(n int) fingerprint.Digest {
	if t.messages <= n {
		return t.instructions()
	}
	return fingerprint.Chain(t.instructions(), t.firstMessage())
}

// firstMessage returns the digest of the first human message, without clocks and ids.
func (t *Transcript) firstMessage() fingerprint.Digest {
	sum := t.digester.Hasher.System(t.firstWords())
	if others := t.digester.Others(t.begun); !others.IsZero() {
		sum = fingerprint.Chain(sum, others)
	}
	return sum
}

// firstWords returns the text of the first human message, without an agent's scratchpad
// behind it. It is valid until the next call.
func (t *Transcript) firstWords() []byte {
	text, _ := t.digester.Words(t.begun)
	if t.begunTo > 0 {
		return text[:min(t.begunTo, len(text))]
	}
	return text
}

// Clockless identifies a conversation that has just begun by its content without the current
// time. ok is false if it does not contain the time, or if the model has already answered.
func (t *Transcript) Clockless(now time.Time) (sum fingerprint.Digest, ok bool) {
	if t.spoken || !t.opened {
		return sum, false
	}
	words := t.firstWords()
	clockless := recognize.AppendClockless(nil, words, now)
	if bytes.IndexByte(clockless, 0) < 0 {
		return sum, false
	}
	sum = fingerprint.Chain(t.instructions(), fingerprint.String(clockless))
	if others := t.digester.Others(t.begun); !others.IsZero() {
		sum = fingerprint.Chain(sum, others)
	}
	return sum, true
}
