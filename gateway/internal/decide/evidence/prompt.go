package evidence

import (
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

const (
	promptDomain = "unloop/prompt/3"
	// askedSize and sessionSize are the lengths, in bytes, of the first two parts of a
	// prompt's fingerprint: prompt, session and model.
	askedSize   = 16
	sessionSize = 8
)

// promptCounter counts the request's prompt. A session with a name has its own count. If an
// agent may name a new session with each request, its sessions are also counted together.
func (m *maker) promptCounter(p *bundle.Policy) *checkpb.Counter {
	d := p.Prompt
	c := &checkpb.Counter{
		Policy: p.ID, Detector: finding.Prompt, Shadow: m.shadow(p), Window: windows[d.Window],
		WindowSeconds: uint32(d.WindowSeconds), Threshold: uint32(d.MaxHits),
		CooldownSeconds: uint32(d.CooldownSeconds), Steps: steps(d.Steps()),
	}
	asked, named := m.asked(d), d.Scope == policy.ScopeNamed && m.OwnSession && !m.keptByProvider()
	session := ""
	if named {
		session = m.Identity.GetSession()
	}
	if named && m.rotates(p.ID, asked, d) && (d.CountEach || !m.begins()) {
		c.Together = &checkpb.Together{
			Fingerprint: m.promptFingerprint(asked, "together", ""), Threshold: uint32(2 * d.MaxHits), Steps: steps(d.TogetherSteps()),
		}
	}
	c.Fingerprint, c.Parted = m.promptFingerprint(asked, "session", session), true
	c.Opening = m.opening(d, named)
	if !d.CountEach {
		m.inFlight(c, p)
	}
	if m.Prompt == nil {
		return c
	}
	m.setRounds(c, d)
	if m.begins() {
		c.SlowHits, c.SlowSeconds = uint32(d.WarnHits), uint32(d.WarnWindowSeconds)
	}
	return c
}

// setRounds sets how often the end of the request's history repeats itself: how often the
// agent got the same complaint, or said the same and got the same answer.
func (m *maker) setRounds(c *checkpb.Counter, d *policy.Prompt) {
	t := m.Prompt.Transcript
	if !m.Prompt.Delta {
		c.Messages = uint32(t.Messages())
	}
	if n := t.Complaints(); n > 1 {
		c.Rounds, c.HintRounds, c.StopRounds, c.Complaint = uint32(n), uint32(d.ComplaintHint), uint32(d.ComplaintStop), true
		return
	}
	c.Rounds, c.HintRounds, c.Closed = uint32(t.Rounds()), uint32(d.HintRounds), t.Closed()
	if c.GetClosed() {
		c.StopRounds = 2 * c.GetHintRounds() // the hint changed nothing
	}
}

// keptByProvider reports whether the provider stores the history, so that the request has
// only the newest part of it.
func (m *maker) keptByProvider() bool { return m.Prompt != nil && m.Prompt.Delta }

// asked returns the fingerprint of the prompt without the model, and without the session if
// the policy counts sessions together. The newest messages of a history that the provider
// stores mean little without their session, which is always included.
func (m *maker) asked(p *policy.Prompt) []byte {
	b := fingerprint.New(promptDomain).String(m.Identity.GetCaller())
	if p.Scope == policy.ScopeSession || m.keptByProvider() {
		b.String("session").String(m.Identity.GetSession())
	}
	m.addAsked(b, p)
	return b.Sum().Bytes()[:askedSize]
}

// addAsked adds the prompt to a fingerprint, without the caller.
func (m *maker) addAsked(b *fingerprint.Builder, p *policy.Prompt) {
	switch {
	case m.Prompt == nil:
		b.String("raw").Digest(m.Body.Digest())
	case p.Fingerprint == "text":
		b.Digest(m.Prompt.Transcript.BeginningText(p.TailMessages))
		tail := m.Prompt.Tail
		for _, message := range tail[max(0, len(tail)-p.TailMessages):] {
			b.Digest(message.Text)
		}
	default:
		b.Digest(m.Prompt.Transcript.Beginning()).Digest(m.Prompt.Transcript.Recent(p.TailMessages))
	}
}

// promptFingerprint joins the parts of a prompt's fingerprint: prompt, session and model.
// kind says what the session's part is used for.
func (m *maker) promptFingerprint(asked []byte, kind, session string) []byte {
	in := fingerprint.New(promptDomain).String(kind).String(session).Sum()
	model := fingerprint.New(promptDomain).String("model").String(m.Model()).Sum()
	return append(append(append(make([]byte, 0, len(in)), asked...), in[:sessionSize]...), model[:len(in)-askedSize-sessionSize]...)
}
