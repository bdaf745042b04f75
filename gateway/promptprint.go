package gateway

import (
	"time"

	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

// The lengths in bytes of the parts of a prompt's fingerprint: what was asked, in
// which session, and which model.
const (
	askedSize   = 16
	sessionSize = 8
)

// setPrompt sets what a prompt is counted by. A session that names itself has a
// count of its own, and adds to that of all of them where it may be an agent that
// names another one with each request.
func (x *exchange) setPrompt(c *checkpb.Counter, p *policy.Prompt, now time.Time) {
	asked, named := x.asks(p), p.Scope == policy.ScopeNamed && x.OwnSession && !x.keptByProvider()
	session := ""
	if named {
		session = x.Identity.GetSession()
	}
	if named && x.rotates(c.GetPolicy(), asked, p, now) {
		c.Together = &checkpb.Together{
			Fingerprint: x.promptFingerprint(asked, "together", ""), Threshold: uint32(2 * p.MaxHits), Steps: steps(p.TogetherSteps()),
		}
	}
	c.Fingerprint, c.Parted = x.promptFingerprint(asked, "session", session), true
	if x.Prompt == nil {
		return
	}
	c.Rounds, c.HintRounds = uint32(x.Prompt.Transcript.Rounds()), uint32(p.HintRounds)
	if x.Prompt.Transcript.Begins() && !x.Prompt.Delta {
		c.SlowHits, c.SlowSeconds = uint32(p.WarnHits), uint32(p.WarnWindowSeconds)
	}
}

// keptByProvider says whether the request shows a part of its history alone.
func (x *exchange) keptByProvider() bool { return x.Prompt != nil && x.Prompt.Delta }

// asks covers what was asked, without the model, and without the session where the
// policy counts sessions together. Of a conversation that the provider keeps only
// the newest is shown, which means little without its session.
func (x *exchange) asks(p *policy.Prompt) []byte {
	b := fingerprint.New(promptDomain).String(x.Identity.GetCaller())
	if p.Scope == policy.ScopeSession || x.keptByProvider() {
		b.String("session").String(x.Identity.GetSession())
	}
	x.addAsked(b, p)
	sum := b.Sum()
	return sum[:askedSize]
}

// addAsked adds what was asked, whoever asks.
func (x *exchange) addAsked(b *fingerprint.Builder, p *policy.Prompt) {
	switch {
	case x.Prompt == nil:
		b.String("raw").Digest(x.Body.Digest())
	case p.Fingerprint == "text":
		b.Digest(x.Prompt.Transcript.BeginningText(p.TailMessages))
		for _, m := range newest(x.Prompt.Tail, p.TailMessages) {
			b.Digest(m.Text)
		}
	default:
		b.Digest(x.Prompt.Transcript.Beginning()).Digest(x.Prompt.Transcript.Recent(p.TailMessages))
	}
}

// promptFingerprint is the whole fingerprint: what was asked, in which session and
// which model. kind tells sessions from what else is in their place.
func (x *exchange) promptFingerprint(asked []byte, kind, session string) []byte {
	in := fingerprint.New(promptDomain).String(kind).String(session).Sum()
	model := fingerprint.New(promptDomain).String("model").String(x.Model()).Sum()
	return append(append(append(make([]byte, 0, len(in)), asked...), in[:sessionSize]...), model[:len(in)-askedSize-sessionSize]...)
}

func newest(tail []provider.Message, n int) []provider.Message {
	return tail[max(0, len(tail)-n):]
}
