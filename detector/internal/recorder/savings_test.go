package recorder

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas/event"
)

func TestSavingsAreWhatEachWriteAdds(t *testing.T) {
	t.Parallel()
	record := func(loop string, requests, tokens int, usd *float64) incident.Record {
		return incident.Record{Incident: event.Incident{Data: event.Data{
			LoopID: loop, Policy: "p", Saved: event.Saved{Requests: requests, InputTokens: tokens, USD: usd},
		}}}
	}
	s := newSavings()
	one := record("one", 2, 100, nil)
	s.count(incident.Record{}, one)
	s.count(one, one) // a write that was applied before
	s.count(one, record("one", 5, 250, new(0.5)))
	s.count(record("one", 5, 250, new(0.5)), record("two", 1, 50, new(0.25))) // the next incident
	if got := testutil.ToFloat64(s.requests); got != 6 {
		t.Errorf("%v requests, want 6", got)
	}
	if got := testutil.ToFloat64(s.inputTokens); got != 300 {
		t.Errorf("%v input tokens, want 300", got)
	}
	if got := testutil.ToFloat64(s.usd); got != 0.75 {
		t.Errorf("%v dollars, want 0.75", got)
	}
}
