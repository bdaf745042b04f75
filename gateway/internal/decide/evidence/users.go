package evidence

import (
	"time"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
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
	if m.Key == "" || !Telling(m.Request) {
		return nil
	}
	var out []*checkpb.Counter
	for _, p := range m.Matched {
		if p.Prompt == nil {
			continue
		}
		b := fingerprint.New(usersDomain).String(p.ID).String(m.Key).String(m.Model())
		m.addAsked(b, p.Prompt)
		sum := b.Sum().Bytes()
		if m.Memory.changed(fingerprint.Bytes(sum), m.Identity.GetCaller(), time.Duration(p.Prompt.WindowSeconds)*time.Second, m.Now) {
			out = append(out, m.userCounter(p, sum))
		}
	}
	return out
}

// Telling reports whether a request counts, names its end user, and asks what hardly two
// of them ask by themselves.
func Telling(r *request.Request) bool {
	p := r.Prompt
	if r.Run != nil || r.Peek || p == nil || p.User == "" || p.Delta {
		return false
	}
	human, _ := p.Transcript.Human()
	return p.Transcript.Messages() >= tellingMessages || len(human) >= tellingBytes
}

func (m *maker) userCounter(p *bundle.Policy, sum []byte) *checkpb.Counter {
	at := min(p.Prompt.TogetherSteps()[0].At, highestStep)
	return &checkpb.Counter{
		Policy: p.ID, Detector: finding.Users, Shadow: m.shadow(p), Window: checkpb.Window_WINDOW_SLIDING, Fingerprint: sum,
		WindowSeconds: uint32(p.Prompt.WindowSeconds), Threshold: uint32(at - 1), Steps: steps([]policy.Step{{At: at, Action: policy.Warn}}),
	}
}
