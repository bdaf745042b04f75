package override

import (
	"time"

	"github.com/unloop/unloop/schemas"
)

// History has all overrides that were ever set, each from its creation to its end. It is
// used for recorded traffic.
type History struct {
	all         []schemas.Override
	current     Entries
	from, until time.Time // when current holds
}

// NewHistory returns the history of overrides.
func NewHistory(all []schemas.Override) *History { return &History{all: all} }

// forever is longer than any recording.
const forever = 100 * 365 * 24 * time.Hour

// At returns the overrides in force at a time.
func (h *History) At(now time.Time) Entries {
	if h.current != nil && !now.Before(h.from) && now.Before(h.until) {
		return h.current
	}
	h.current, h.from, h.until = Entries{}, now, now.Add(forever)
	for _, o := range h.all {
		if !now.Before(o.CreatedAt) && o.StandsAt(now) {
			h.current[o.Key()] = o
		}
		for _, edge := range []time.Time{o.CreatedAt, o.EndedAt, o.ExpiresAt} {
			if now.Before(edge) && edge.Before(h.until) {
				h.until = edge
			}
		}
	}
	return h.current
}
