package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/schemas/event"
)

// sink answers with the errors it holds, one after the other, and then takes all.
type sink struct {
	mu   sync.Mutex
	errs []error
	got  []string
}

func (s *sink) Send(_ context.Context, e event.Event, _ []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, e.ID)
	if len(s.errs) == 0 {
		return nil
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	return err
}

// failure is an error as sinks have them.
type failure struct {
	after time.Duration
	final bool
}

func (f failure) Error() string             { return fmt.Sprintf("failed, %v", f.final) }
func (f failure) Permanent() bool           { return f.final }
func (f failure) RetryAfter() time.Duration { return f.after }

func TestTargetsGetWhatTheyAskForOnce(t *testing.T) {
	t.Parallel()
	all, project, tenant := &sink{}, &sink{errs: []error{failure{after: time.Minute}, failure{after: time.Second}}}, &sink{errs: []error{failure{final: true}}}
	f := New("webhook", []Target{{Sink: all}, {Sink: project, Project: "p"}, {Sink: tenant, Tenant: "t"}})
	events := []event.Event{{ID: "1"}, {ID: "2", ProjectID: "p"}, {ID: "3", ProjectID: "q", TenantID: "t"}, {ID: "2", ProjectID: "p"}, {ID: "2", ProjectID: "p"}}
	var errs []string
	for _, e := range events {
		err := f.Send(t.Context(), e, nil)
		var w interface{ RetryAfter() time.Duration }
		if errors.As(err, &w) {
			errs = append(errs, fmt.Sprint(e.ID, " in ", w.RetryAfter()))
		} else if err != nil {
			errs = append(errs, err.Error())
		}
	}
	if diff := cmp.Diff([]string{"2 in 1m0s", "2 in 1s"}, errs); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][]string{{"1", "2", "3"}, {"2", "2", "2"}, {"3"}}, [][]string{all.got, project.got, tenant.got}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(f.done) != 0 {
		t.Errorf("%d events are remembered that nobody needs", len(f.done))
	}
}

func TestEventThatAllRefuseIsRefused(t *testing.T) {
	t.Parallel()
	one, two := &sink{errs: []error{failure{final: true}}}, &sink{errs: []error{failure{final: true}}}
	err := New("webhook", []Target{{Sink: one}, {Sink: two}}).Send(t.Context(), event.Event{ID: "1"}, nil)
	if !permanent(err) {
		t.Errorf("%v", err)
	}
}

func TestPartsOfManyEventsAreForgotten(t *testing.T) {
	t.Parallel()
	down := &sink{}
	for range maxRemembered + 10 {
		down.errs = append(down.errs, failure{})
	}
	f := New("webhook", []Target{{Sink: down}})
	for i := range maxRemembered + 10 {
		if f.Send(t.Context(), event.Event{ID: fmt.Sprint(i)}, nil) == nil {
			t.Fatal("delivered")
		}
	}
	if len(f.done) != maxRemembered || len(f.ids) != maxRemembered {
		t.Errorf("%d events are remembered", len(f.done))
	}
}
