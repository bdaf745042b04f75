package conformance

import (
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

// repairs expects that a sound history stays, that a lost result is made, and that a
// body that can't be read is returned with an error.
func (s suite) repairs(t *testing.T) {
	t.Parallel()
	c := Fixing()
	body := s.write(c)
	if got, report, err := s.p.Repair(body); err != nil || report.Changed() || &got[0] != &body[0] {
		t.Errorf("a sound history: %v, %v", report, err)
	}
	c.Turns = c.Turns[:len(c.Turns)-1]
	mended, report, err := s.p.Repair(s.write(c))
	if err != nil || report.Synthetic != 1 {
		t.Fatalf("a lost result: %v, %v", report, err)
	}
	prompt, err := s.p.Parse(mended, provider.Options{Items: 9})
	if err != nil {
		t.Fatal(err)
	}
	items, _ := prompt.Transcript.History(provider.Rules{})
	if newest := items[len(items)-1]; len(newest.Calls) != 1 || newest.Calls[0].Result.IsZero() {
		t.Errorf("the newest item is %+v", newest)
	}
	broken := body[:len(body)/2]
	if got, _, err := s.p.Repair(broken); err == nil || &got[0] != &broken[0] {
		t.Errorf("half a body: %v", err)
	}
}
