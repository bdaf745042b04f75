package evaluate

import (
	"fmt"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// digestReader reads digests and remembers the first fault.
type digestReader struct{ err error }

func (r *digestReader) digest(b []byte) (d fingerprint.Digest) {
	if len(b) != 0 && len(b) != len(d) {
		r.err = fmt.Errorf("digest has %d bytes, want %d", len(b), len(d))
		return d
	}
	copy(d[:], b)
	return d
}

// evidence returns a watch's history.
func (r *digestReader) evidence(h *checkpb.History) toolloop.Evidence {
	ev := toolloop.Evidence{Delta: h.GetDelta(), Own: h.GetOwn(), Items: make([]toolloop.Item, len(h.GetItems()))}
	ev.Before = r.digest(h.GetBefore())
	n := 0
	for _, item := range h.GetItems() {
		n += len(item.GetCalls())
	}
	calls := make([]toolloop.Call, n)
	for i, item := range h.GetItems() {
		n := len(item.GetCalls())
		ev.Items[i] = toolloop.Item{Human: r.digest(item.GetHuman()), Summary: item.GetSummary(), Closed: item.GetClosed(), Calls: calls[:n:n]}
		calls = calls[n:]
		for j, c := range item.GetCalls() {
			ev.Items[i].Calls[j] = r.call(c)
		}
	}
	return ev
}

func (r *digestReader) call(c *checkpb.ToolCall) toolloop.Call {
	return toolloop.Call{
		Tool: c.GetTool(), Key: r.digest(c.GetCall()), Result: r.digest(c.GetResult()), Class: r.digest(c.GetErrorClass()), ID: r.digest(c.GetId()),
		Failed: c.GetFailed(), Poll: c.GetPoll(), NotOffered: c.GetNotOffered(), Ours: c.GetOurs(),
		Loose: r.digest(c.GetLoose()), Soft: c.GetSoft(), Empty: c.GetEmpty(), Wait: c.GetWait(), Once: c.GetOnce(), Plain: c.GetPlain(), Look: c.GetLook(), Retold: c.GetRetold(),
	}
}
