package evaluate

import (
	"sync"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/policy"
)

// decodeCache caches decoded parameters by their encoded form, which is the same in all checks
// under one version of a policy.
type decodeCache[V any] struct {
	mu    sync.RWMutex
	known map[string]V
}

// maxDecoded is the size at which a cache is emptied.
const maxDecoded = 1024

func (d *decodeCache[V]) of(data []byte, decode func([]byte) (V, error)) (V, error) {
	d.mu.RLock()
	v, ok := d.known[string(data)]
	d.mu.RUnlock()
	if ok {
		return v, nil
	}
	v, err := decode(data)
	if err != nil {
		return v, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= maxDecoded {
		d.known = map[string]V{}
	}
	d.known[string(data)] = v
	return v, nil
}

var (
	tools     decodeCache[*policy.Tool]
	cycles    decodeCache[*policy.Cycle]
	semantics decodeCache[*policy.Semantic]
)

// watchParams are the parameters of a tool watch.
type watchParams struct {
	toolloop.Params
	// climbs and cycleClimbs report that the policy sets an escalation.
	climbs, cycleClimbs bool
}

// paramsOf returns the parameters of a watch.
func paramsOf(w *checkpb.ToolWatch) (p watchParams, err error) {
	if p.Tool, err = tools.of(w.GetTool(), decodeTool); err != nil {
		return p, err
	}
	p.Cycle, err = cycles.of(w.GetCycle(), decodeCycle)
	p.climbs, p.cycleClimbs = len(p.Tool.Escalation) > 0, err == nil && len(p.Cycle.Escalation) > 0
	return p, err
}

// decodeTool returns a tool detector; for no data, one that finds nothing. An escalation sets
// its thresholds: the first step warns, and the first step that stops is the block, which no
// number of warnings brings forward.
func decodeTool(data []byte) (*policy.Tool, error) {
	t, err := policy.DecodeBlock[policy.Tool](data)
	switch {
	case err != nil:
		return nil, err
	case t == nil:
		t = policy.DefaultTool()
		t.WarnAction, t.BlockAction, t.ErrorAction = policy.Allow, policy.Allow, policy.Allow
		t.ErrorThreshold, t.FailedRounds, t.EmptyThreshold, t.UnknownThreshold, t.Escalate, t.PollLimitHours = 0, 0, 0, 0, 0, 0
	case len(t.Escalation) > 0:
		t.WarnThreshold, t.BlockThreshold = t.Escalation[0].At, t.Escalation[len(t.Escalation)-1].At+1
		for _, step := range t.Escalation {
			if actionOf(step.Action).Stops() {
				t.BlockThreshold = step.At
				break
			}
		}
		t.MaxWarnings = t.BlockThreshold + 1
	}
	return t, nil
}

// decodeCycle returns a cycle detector; for no data, one that finds nothing. An escalation
// begins with its first step.
func decodeCycle(data []byte) (*policy.Cycle, error) {
	c, err := policy.DecodeBlock[policy.Cycle](data)
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return &policy.Cycle{Action: policy.Allow, WideAction: policy.Allow}, nil
	}
	c.Repeats = c.Steps()[0].At
	return c, nil
}

// decodeSemantic returns a semantic detector.
func decodeSemantic(data []byte) (*policy.Semantic, error) {
	s, err := policy.DecodeBlock[policy.Semantic](data)
	if err == nil && s == nil {
		s = policy.DefaultSemantic()
	}
	return s, err
}

// actionOf returns an action of a policy as a wire value.
func actionOf(a policy.Action) checkpb.Action { return checkpb.ActionOf(string(a)) }
