package forward

import (
	"errors"
	"fmt"

	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/repair"
	"github.com/unloop/unloop/gateway/internal/request"
)

// Repaired returns a body whose history of tool calls the provider accepts, and what was
// changed in it. A body that needs no repair, or that is not sent as plain JSON, is
// returned as it is.
func Repaired(p provider.Provider, b *request.Body) (*request.Body, repair.Report, error) {
	if b.Recoded() {
		return b, repair.Report{}, nil
	}
	repaired, report, err := p.Repair(b.Bytes)
	if err != nil || !report.Changed() {
		return b, report, err
	}
	return b.With(repaired), report, nil
}

// Hinted returns a body with a hint. If the newest message can't take text, the head does.
// If there is no place for the hint, the body is returned as it is with an error.
func Hinted(p provider.Provider, b *request.Body, text, position string) (*request.Body, error) {
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
