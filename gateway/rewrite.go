package gateway

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/unloop/unloop/gateway/internal/provider"
)

// mend repairs the history of tool calls, where a policy asks for it and the
// provider would refuse it as it is.
func (g *Gateway) mend(x *exchange) {
	if !x.Repair || x.Prompt == nil || x.Body.Recoded() {
		return
	}
	mended, report, err := x.Provider.Repair(x.Body.Bytes)
	if err != nil {
		g.log.Warn("history could not be repaired", "format", x.Provider.Name(), "error", err)
		return
	}
	if !report.Changed() {
		return
	}
	x.Body.Replace(mended)
	x.out.Headers.Set("X-Loop-Repaired", report.String())
	report.Each(func(kind string, n int) { g.metrics.repairs.WithLabelValues(kind).Add(float64(n)) })
	g.log.Info("history repaired", "format", x.Provider.Name(), "session", x.Identity.GetSession(), "changes", report.String())
}

// hint puts a hint into the request, where that is what is to be done. A body
// that can't take it is forwarded as it was.
func (g *Gateway) hint(x *exchange) {
	text, position := x.out.Hint(g.now())
	if text == "" {
		return
	}
	if err := x.splice(text, position); err != nil {
		f := x.out.Finding
		g.metrics.hints.WithLabelValues("no-place").Inc()
		g.log.Warn("request could not take a hint", "format", x.Provider.Name(), "policy", f.GetPolicy(), "fingerprint", hex.EncodeToString(f.GetFingerprint()[:8]), "error", err)
		return
	}
	g.metrics.hints.WithLabelValues("given").Inc()
}

// splice changes the body that is forwarded. Where the newest message can't take text,
// the head does.
func (x *exchange) splice(text, position string) error {
	if x.Body.Recoded() {
		return fmt.Errorf("body is compressed, or no strict JSON: %w", provider.ErrNoPlace)
	}
	hinted, err := x.Provider.Hint(x.Body.Bytes, text, position)
	if errors.Is(err, provider.ErrNoPlace) && position == provider.Result {
		hinted, err = x.Provider.Hint(x.Body.Bytes, text, provider.Head)
	}
	if err != nil {
		return err
	}
	x.Body.Replace(hinted)
	return nil
}
