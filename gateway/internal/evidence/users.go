package evidence

import (
	"time"

	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

const (
	usersDomain = "unloop/users/1"
	// tellingMessages and tellingBytes are the number of messages, and the bytes of the
	// newest one, from which on hardly two people ask the same prompt by themselves.
	tellingMessages = 4
	tellingBytes    = 400
	// highestStep is the highest count that detectors take.
	highestStep = 10_000
)

// userCounters lists the counters of prompts that came from another end user of the
// same key before.
func (m *maker) userCounters() []*checkpb.Counter {
	if m.Key == nil || m.Run != nil || m.Peek || !m.telling() {
		return nil
	}
	var out []*checkpb.Counter
	key := m.Key()
	for _, p := range m.Matched {
		if p.Prompt == nil {
			continue
		}
		b := fingerprint.New(usersDomain).String(p.ID).String(key).String(m.Model())
		m.addAsked(b, p.Prompt)
		sum := b.Sum()
		if m.Memory.changed(fingerprint.Bytes(sum[:]), m.Identity.GetCaller(), time.Duration(p.Prompt.WindowSeconds)*time.Second, m.Now) {
			out = append(out, m.userCounter(p, sum[:]))
		}
	}
	return out
}

// telling reports whether the request names its end user, and asks what hardly two of
// them ask by themselves.
func (m *maker) telling() bool {
	if m.Prompt == nil || m.Prompt.User == "" || m.Prompt.Delta {
		return false
	}
	return m.Prompt.Transcript.Messages() >= tellingMessages || len(m.Prompt.Transcript.Human()) >= tellingBytes
}

func (m *maker) userCounter(p *bundle.Policy, sum []byte) *checkpb.Counter {
	at := min(p.Prompt.TogetherSteps()[0].At, highestStep)
	return &checkpb.Counter{
		Policy: p.ID, Detector: DetectorUsers, Shadow: m.shadow(p), Window: checkpb.Window_WINDOW_SLIDING, Fingerprint: sum,
		WindowSeconds: uint32(p.Prompt.WindowSeconds), Threshold: uint32(at - 1), Steps: steps([]policy.Step{{At: at, Action: policy.Warn}}),
	}
}
