package checker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/fleet"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// outcomes are the reports of failed requests that detectors have not stored yet. Checks of
// the same request wait for them: otherwise a retry could count before the detectors know
// that the first try failed.
type outcomes struct {
	mu   sync.Mutex
	open map[string]chan struct{}
}

func newOutcomes() *outcomes { return &outcomes{open: map[string]chan struct{}{}} }

// outcomeKey is the length of the prefixes of fingerprints that are compared.
const outcomeKey = 16

// outcomeKeys returns keys that a check shares with the check of a retry.
func outcomeKeys(check *checkpb.Check) []string {
	keys := make([]string, 0, len(check.GetCounters())+len(check.GetSemantics()))
	add := func(of []byte) { keys = append(keys, string(of[:min(len(of), outcomeKey)])) }
	for _, counter := range check.GetCounters() {
		add(counter.GetFingerprint())
	}
	for _, watch := range check.GetSemantics() {
		add(watch.GetScope())
	}
	return keys
}

// begin registers a report, and returns the function that ends it.
func (o *outcomes) begin(check *checkpb.Check) (end func()) {
	keys, stored := outcomeKeys(check), make(chan struct{})
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range keys {
		o.open[key] = stored
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, key := range keys {
			if o.open[key] == stored {
				delete(o.open, key)
			}
		}
		close(stored)
	}
}

// wait waits until the reports about a check are stored, at most for patience.
func (o *outcomes) wait(ctx context.Context, check *checkpb.Check, patience time.Duration) {
	reports := o.about(check)
	if len(reports) == 0 {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for _, stored := range reports {
		select {
		case <-stored:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// about returns the open reports about a check.
func (o *outcomes) about(check *checkpb.Check) (reports []chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.open) == 0 {
		return nil
	}
	for _, key := range outcomeKeys(check) {
		if stored := o.open[key]; stored != nil {
			reports = append(reports, stored)
		}
	}
	return reports
}

// Outcome reports that a counted request had no effect, so that its retry is no loop. aborted
// is set if the client left during the answer. Checks of the same request wait until a
// detector has stored the report; if it is lost, the retry counts.
func (c *Checker) Outcome(check *checkpb.Check, aborted bool) {
	o := checkpb.OutcomeOf(check)
	o.Aborted = aborted
	body, err := proto.Marshal(o)
	if err != nil {
		return // nothing in a check that was decided
	}
	end := c.outcomes.begin(check)
	c.tell(fleet.Hash(check.GetIdentity().GetCaller()), body, end)
}

// Correct reports the differences between a caller's reservations and the actual cost. If the
// message is lost, the reservations stay.
func (c *Checker) Correct(caller string, corrections []*checkpb.Correction) {
	body, err := proto.Marshal(&checkpb.Outcome{Corrections: corrections})
	if err == nil {
		c.tell(fleet.Hash(caller), body, func() {})
	}
}

// tell sends an outcome to the caller's detector, which has the records in memory, or to any
// detector if that one is gone. It calls end when the outcome is stored, or when there is no
// answer.
func (c *Checker) tell(caller uint64, body []byte, end func()) {
	anybody := func() {
		c.inbox.Request(&nats.Msg{Subject: schemas.SubjectOutcome, Data: body}, func([]byte, error) { end() })
	}
	name := c.fleet.Choose(caller).First
	if name == "" || c.inbox.Near(schemas.SubjectOutcome) {
		anybody()
		return
	}
	c.inbox.Request(&nats.Msg{Subject: schemas.OutcomeSubject(name), Data: body}, func(_ []byte, err error) {
		if errors.Is(err, natskit.ErrNoResponder) { // it is gone
			anybody()
			return
		}
		end()
	})
}
