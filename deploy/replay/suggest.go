package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	// enough is the number of conversations or contents needed to suggest a lower threshold.
	enough = 20
	// often is the share of flagged ones above which a threshold is too low, seldom the share
	// that a higher one may flag.
	often, seldom = 0.05, 0.01
	// manySessions is the number of sessions with repeated calls of a tool that suggests
	// polling.
	manySessions = 3
)

// knob is a threshold of a policy.
type knob struct{ policy, detector string }

// peaks are the highest counts of each content or agent, by knob.
type peaks map[knob]map[[16]byte]uint32

func (p peaks) note(check *checkpb.Check, d *checkpb.Decision) {
	for i, c := range check.GetCounters() {
		if i < len(d.GetHitCounts()) {
			p.raise(knob{c.GetPolicy(), c.GetDetector()}, c.GetFingerprint(), d.GetHitCounts()[i])
		}
	}
	for i, r := range d.GetToolReports() {
		if i < len(check.GetWatches()) && !r.GetPoll() {
			p.raise(knob{r.GetPolicy(), "tool"}, check.GetWatches()[i].GetAgent(), r.GetStreak())
		}
	}
}

func (p peaks) raise(k knob, fingerprint []byte, count uint32) {
	if len(fingerprint) < 16 {
		return
	}
	if p[k] == nil {
		p[k] = map[[16]byte]uint32{}
	}
	id := [16]byte(fingerprint)
	p[k][id] = max(p[k][id], count)
}

// setting is a knob with the bundle's value. It fires at the count value + more.
type setting struct {
	knob
	name        string
	value, more int
	least       int // the lowest value that makes sense
}

func settings(p *gateway.Policy) []setting {
	var out []setting
	if d := p.Prompt; d != nil && len(d.Escalation) == 0 {
		out = append(out, setting{knob{p.ID, "prompt"}, "prompt.max_hits", d.MaxHits, 1, 2})
	}
	if d := p.LoopDetection; d != nil && len(d.Escalation) == 0 {
		out = append(out, setting{knob{p.ID, "request"}, "loop_detection.threshold_identical_requests", d.Threshold, 0, 3})
	}
	if d := p.Tool; d != nil && len(d.Escalation) == 0 {
		out = append(out, setting{knob{p.ID, "tool"}, "tool.block_threshold", d.BlockThreshold, 0, 4})
	}
	return out
}

// suggest returns the suggestions for all policies.
func (t *tally) suggest() []Suggestion {
	var out []Suggestion
	for _, p := range t.policies.Policies() {
		for _, s := range settings(p) {
			counts := slices.Sorted(maps.Values(t.peaks[s.knob]))
			if better, ok := s.suggest(counts); ok {
				out = append(out, better)
			}
		}
	}
	return append(out, t.suggestPolls()...)
}

// suggest returns a better value for the setting, given the sorted peaks.
func (s setting) suggest(counts []uint32) (Suggestion, bool) {
	n := len(counts)
	if n == 0 {
		return Suggestion{}, false
	}
	fires, top := uint32(s.value+s.more), counts[n-1]
	below, _ := slices.BinarySearch(counts, fires)
	flagged := n - below
	switch spare := int(top) + 2 - s.more; {
	case flagged == 0 && n >= enough && max(spare, s.least) < s.value:
		return s.to(max(spare, s.least), fmt.Sprintf("none of %d had a count above %d; this would stop a loop sooner", n, top)), true
	case flagged > 1 && float64(flagged) > often*float64(n):
		rare := counts[min(n-1, int(float64(n)*(1-seldom)))]
		return s.to(int(rare)+1-s.more, fmt.Sprintf("%d of %d are flagged, and their highest count is %d; if those are honest, this lets them pass", flagged, n, top)), true
	default:
		return Suggestion{}, false
	}
}

func (s setting) to(value int, why string) Suggestion {
	return Suggestion{Policy: s.policy, Setting: s.name, Now: strconv.Itoa(s.value), Better: strconv.Itoa(value), Why: why}
}

// suggestPolls suggests to list a tool as a poll if its calls repeat themselves in many
// sessions.
func (t *tally) suggestPolls() []Suggestion {
	var out []Suggestion
	for key, sessions := range t.looped {
		if len(sessions) < manySessions {
			continue
		}
		out = append(out, Suggestion{
			Policy: key.policy, Setting: "tool.poll_tools", Now: "without " + key.tool, Better: "with " + key.tool,
			Why: fmt.Sprintf("its calls repeat in %d sessions; if it waits for something, treat it as polling", len(sessions)),
		})
	}
	slices.SortFunc(out, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Better, b.Better))
	})
	return out
}
