package ask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/gateway/internal/ask/checker"
	"github.com/unloop/unloop/schemas/checkpb"
)

// answers are detectors that always answer the same.
type answers struct {
	decision *checkpb.Decision
	local    bool
	err      error
}

func (a answers) Check(context.Context, *checkpb.Check) (*checkpb.Decision, bool, error) {
	return a.decision, a.local, a.err
}

func TestAsk(t *testing.T) {
	t.Parallel()
	decision := &checkpb.Decision{}
	for name, c := range map[string]struct {
		answers answers
		want    Answer
		result  string
	}{
		"decided":         {answers{decision: decision}, Answer{Decision: decision, Counted: true}, "decided"},
		"from memory":     {answers{decision: decision, local: true}, Answer{Decision: decision}, "local"},
		"abandoned":       {answers{err: fmt.Errorf("check: %w", context.Canceled)}, Answer{}, "abandoned"},
		"no detector":     {answers{err: checker.ErrNoDetector}, Answer{Degraded: checker.ErrNoDetector.Error()}, checker.ErrNoDetector.Error()},
		"timeout":         {answers{err: fmt.Errorf("check: %w", checker.ErrTimeout)}, Answer{Degraded: checker.ErrTimeout.Error()}, checker.ErrTimeout.Error()},
		"overloaded":      {answers{err: checker.ErrOverloaded}, Answer{Overloaded: true}, checker.ErrOverloaded.Error()},
		"any other error": {answers{err: errors.New("secret")}, Answer{Degraded: checker.ErrDetector.Error()}, checker.ErrDetector.Error()},
	} {
		a := New(c.answers, slog.New(slog.DiscardHandler), time.Now, prometheus.NewRegistry())
		if got := a.Ask(t.Context(), &checkpb.Check{}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if n := testutil.ToFloat64(a.results.WithLabelValues(c.result)); n != 1 {
			t.Errorf("%s: %v counted as %s", name, n, c.result)
		}
	}
}

func TestNobodyIsAskedForAClientThatLeft(t *testing.T) {
	t.Parallel()
	a := New(answers{decision: &checkpb.Decision{}}, slog.New(slog.DiscardHandler), time.Now, prometheus.NewRegistry())
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if got := a.Ask(ctx, &checkpb.Check{}); got != (Answer{}) || testutil.ToFloat64(a.results.WithLabelValues("abandoned")) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestTheFirstOfARowOfDegradedRequestsIsLogged(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	now := time.Unix(0, 0)
	a := New(answers{}, slog.New(slog.NewTextHandler(&logged, nil)), func() time.Time { return now }, prometheus.NewRegistry())
	for _, step := range []struct {
		after time.Duration
		why   string
		lines int
	}{{0, "timeout", 1}, {time.Second, "timeout", 1}, {time.Second, "starting", 2}, {pause - 10*time.Second, "timeout", 2}, {2 * pause, "timeout", 3}} {
		now = now.Add(step.after)
		if a.Degraded(step.why) != step.why || strings.Count(logged.String(), "\n") != step.lines {
			t.Errorf("after %s, %s: logged\n%s", step.after, step.why, logged.String())
		}
	}
}
