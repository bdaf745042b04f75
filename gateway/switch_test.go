package gateway

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// numbered is a bundle in which everything bears its number.
func numbered(version int) string {
	return fmt.Sprintf(`
bundle_version: %[1]d
policies:
  - id: a%[1]d
    spec:
      prompt: {max_hits: %[1]d}
      loop_detection: {enabled: true, window_seconds: %[1]d, threshold_identical_requests: 100}
      rules: [{name: r%[1]d, limit_keys: [caller], algorithm: token_bucket, algorithm_config: {rps: %[1]d, burst: %[1]d}}]
  - {id: b%[1]d, spec: {prompt: {max_hits: %[1]d}}}
`, version)
}

// mixed says what of a check does not belong to the bundle that it names.
func mixed(c *checkpb.Check) string {
	number, _, _ := strings.Cut(c.GetBundle(), "-")
	if len(c.GetCounters()) != 3 || len(c.GetLimits()) != 1 {
		return fmt.Sprintf("bundle %s has %d counters and %d limits", number, len(c.GetCounters()), len(c.GetLimits()))
	}
	for _, counter := range c.GetCounters() {
		if !strings.HasSuffix(counter.GetPolicy(), number) {
			return fmt.Sprintf("bundle %s counts by policy %s", number, counter.GetPolicy())
		}
	}
	if l := c.GetLimits()[0]; l.GetRule() != "r"+number || fmt.Sprint(l.GetBucket().GetRate()) != number {
		return fmt.Sprintf("bundle %s limits by rule %s at %g", number, l.GetRule(), l.GetBucket().GetRate())
	}
	return ""
}

func TestRequestDuringASwitchIsJudgedByOneBundle(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	url, _ := upstream(t)
	_, err := bucket(t, s, schemas.BucketPolicies).Put(t.Context(), schemas.KeyBundle, []byte(numbered(2)))
	must(t, err)
	g := following(t, s, at(url))
	run(t, g)
	var mu sync.Mutex
	seen := map[string]int{}
	detector := s.Conn()
	_, err = detector.QueueSubscribe(schemas.SubjectCheck, schemas.QueueDetector, func(m *nats.Msg) {
		var batch checkpb.CheckBatch
		if err := proto.Unmarshal(m.Data, &batch); err != nil {
			t.Error(err)
			return
		}
		out := &checkpb.DecisionBatch{}
		mu.Lock()
		for _, c := range batch.GetChecks() {
			if what := mixed(c); what != "" {
				t.Error(what)
			}
			seen[c.GetBundle()]++
			out.Decisions = append(out.Decisions, &checkpb.Decision{Limits: []*checkpb.LimitVerdict{{}}})
		}
		mu.Unlock()
		body, err := proto.Marshal(out)
		if err == nil {
			err = m.Respond(body)
		}
		if err != nil {
			t.Error(err)
		}
	})
	must(t, err)
	must(t, detector.Flush())
	done := make(chan struct{})
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for range 100 {
				post(t, g, "/v1/chat/completions", nil)
			}
		})
	}
	go func() { senders.Wait(); close(done) }()
	for version := 3; ; version = 2 + version%8 {
		g.stages.Policies.Pushed([]byte(numbered(version)))
		select {
		case <-done:
			if len(seen) < 2 {
				t.Errorf("only %d bundles were seen", len(seen))
			}
			return
		default:
		}
	}
}
