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
	// minMessages is the number of messages, and minBytes the number of bytes of the newest
	// one, of a prompt that two people hardly send by coincidence.
	minMessages = 4
	minBytes    = 400
	// highestStep is the highest count that detectors accept.
	highestStep = 10_000
)

// userCounters returns the counters of a prompt that another end user of the same key sent
// before.
func (m *maker) userCounters() []*checkpb.Counter {
	if m.Key == "" || !Distinctive(m.Request) {
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

// Distinctive reports whether a request counts, names its end user, and has a prompt that
// two end users hardly send by coincidence.
func Distinctive(r *request.Request) bool {
	p := r.Prompt
	if r.Run != nil || r.Peek || p == nil || p.User == "" || p.Delta {
		return false
	}
	human, _ := p.Transcript.Human()
	return p.Transcript.Messages() >= minMessages || len(human) >= minBytes
}

func (m *maker) userCounter(p *bundle.Policy, sum []byte) *checkpb.Counter {
	at := min(p.Prompt.TogetherSteps()[0].At, highestStep)
	return &checkpb.Counter{
		Policy: p.ID, Detector: finding.Users, Shadow: m.shadow(p), Window: checkpb.Window_WINDOW_SLIDING, Fingerprint: sum,
		WindowSeconds: uint32(p.Prompt.WindowSeconds), Threshold: uint32(at - 1), Steps: steps([]policy.Step{{At: at, Action: policy.Warn}}),
	}
}
