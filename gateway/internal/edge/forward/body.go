package forward

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/checkpb"
)

// Repair returns the body of a request with its history of tool calls repaired so that the
// provider accepts it, and a description of the changes; "" for none.
func (p *Proxy) Repair(req *request.Request, session string) (body *request.Body, changes string) {
	if p.signed(req) {
		return req.Body, ""
	}
	body, report, err := repaired(req.Provider, req.Body)
	switch {
	case err != nil:
		p.log.Warn("history could not be repaired", "format", req.Provider.Name(), "error", err)
	case report.Changed():
		changes = report.String()
		report.Each(func(kind string, n int) { p.repairs.WithLabelValues(kind).Add(float64(n)) })
		p.log.Info("history repaired", "format", req.Provider.Name(), "session", session, "changes", changes)
	}
	return body, changes
}

// Hint returns the body of a request with the hint for a finding, or b if that has no place
// for a hint.
func (p *Proxy) Hint(req *request.Request, b *request.Body, text, position string, f *checkpb.Finding) *request.Body {
	body, err := hinted(req.Provider, b, text, position)
	if p.signed(req) {
		err = errSigned
	}
	if err != nil {
		fingerprint := f.GetFingerprint()
		p.hints.WithLabelValues("no-place").Inc()
		p.log.Warn("request has no place for a hint", "format", req.Provider.Name(), "policy", f.GetPolicy(),
			"fingerprint", hex.EncodeToString(fingerprint[:min(8, len(fingerprint))]), "error", err)
		return b
	}
	p.hints.WithLabelValues("given").Inc()
	return body
}

// errSigned reports that the upstream would refuse a changed body.
var errSigned = fmt.Errorf("the client has signed the body, and the gateway has no key to sign another one: %w", provider.ErrNoPlace)

// signed reports whether a body must not change because the client signed it. If the gateway
// has a key, it signs each request anew.
func (p *Proxy) signed(req *request.Request) bool {
	f := req.Target.Format
	return f.Signed != nil && f.Signed(req.Header) && p.keys[req.Target.Upstream] == ""
}

// repaired returns a body with a tool history that the provider accepts, and the changes. A
// body that needs no repair, or is not plain JSON, is returned unchanged.
func repaired(p provider.Provider, b *request.Body) (*request.Body, repair.Report, error) {
	if b.Recoded() {
		return b, repair.Report{}, nil
	}
	repaired, report, err := p.Repair(b.Bytes)
	if err != nil || !report.Changed() {
		return b, report, err
	}
	return b.With(repaired), report, nil
}

// hinted returns a body with a hint: at the position or, if the newest message can't hold
// text, at the head. Without a place for it, hinted returns b and an error.
func hinted(p provider.Provider, b *request.Body, text, position string) (*request.Body, error) {
	if b.Recoded() {
		return b, fmt.Errorf("body is compressed, or no strict JSON: %w", provider.ErrNoPlace)
	}
	hinted, err := p.Hint(b.Bytes, text, position)
	if errors.Is(err, provider.ErrNoPlace) && position == provider.Result {
		hinted, err = p.Hint(b.Bytes, text, provider.Head)
	}
	if err != nil {
		return b, err
	}
	return b.With(hinted), nil
}
