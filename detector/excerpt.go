package detector

import (
	"slices"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
)

// excerpt is what the incidents of a policy may show of a check's text: nothing
// but where that policy asked for it.
func excerpt(check *checkpb.Check, policy string) string {
	e := check.GetExcerpt()
	if !slices.Contains(e.GetPolicies(), policy) {
		return ""
	}
	runes := 0
	for i := range e.GetText() {
		if runes++; runes > event.MaxExcerpt { // no gateway sends so much
			return e.GetText()[:i]
		}
	}
	return e.GetText()
}
