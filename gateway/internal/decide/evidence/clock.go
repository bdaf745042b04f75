package evidence

import (
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// clockCounter counts a first request without its clocks, which make each prompt different.
// A clock is the current time in any zone; other times are part of the task. The counter
// causes no more than hints, since the task may depend on the clock. It is nil for a prompt
// without a clock.
func (m *maker) clockCounter(p *bundle.Policy) *checkpb.Counter {
	if p.Prompt.CountEach || !m.begins() || m.Prompt.Transcript.Messages() > maxClocked {
		return nil
	}
	sum, ok := m.Prompt.Transcript.Clockless(m.Now)
	if !ok {
		return nil
	}
	session := ""
	if m.OwnSession {
		session = m.Identity.GetSession()
	}
	asked := fingerprint.New(promptDomain).String(m.Identity.GetCaller()).Digest(sum).Sum().Bytes()[:askedSize]
	c := &checkpb.Counter{
		Policy: p.ID, Detector: finding.Prompt, Shadow: m.shadow(p), Window: windows[p.Prompt.Window],
		WindowSeconds: uint32(p.Prompt.WindowSeconds), Threshold: uint32(p.Prompt.MaxHits), Steps: steps(p.Prompt.Steps()),
		Fingerprint: m.promptFingerprint(asked, "clockless", session),
	}
	for _, s := range c.GetSteps() {
		s.Action = min(s.GetAction(), checkpb.Action_ACTION_HINT)
	}
	c.Opening = m.opening(p.Prompt, false)
	m.inFlight(c, p)
	return c
}

// maxClocked is the maximum number of messages, including instructions, of a request with
// only one prompt.
const maxClocked = 2
