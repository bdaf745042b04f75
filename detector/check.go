package detector

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
)

// What Decision.error says when a check could not be counted.
const (
	errorOverloaded = "detector overloaded"
	errorMalformed  = "check malformed"
	errorUncounted  = "not counted"
)

// onCheck answers a batch in a goroutine of its own: handlers of one
// subscription run one after the other, and a write takes a round trip.
func (d *Detector) onCheck(req micro.Request) {
	var batch checkpb.CheckBatch
	if err := proto.Unmarshal(req.Data(), &batch); err != nil {
		d.metrics.malformed.Inc()
		return // whoever sent it gets no answer, like one that speaks to nobody
	}
	d.spawn(func() { d.reply(req, d.decideBatch(&batch)) },
		func() { d.reply(req, refuse(&batch, errorOverloaded)) })
}

// spawn runs work if there is room for it, else instead.
func (d *Detector) spawn(work, instead func()) {
	select {
	case d.slots <- struct{}{}:
		d.working.Go(func() {
			defer func() { <-d.slots }()
			work()
		})
	default:
		d.metrics.overloaded.Inc()
		instead()
	}
}

func (d *Detector) reply(req micro.Request, answer proto.Message) {
	if req.Reply() == "" {
		return
	}
	body, err := proto.Marshal(answer)
	if err == nil {
		err = req.Respond(body)
	}
	if err != nil {
		d.metrics.unanswered.Inc()
	}
}

func refuse(batch *checkpb.CheckBatch, why string) *checkpb.DecisionBatch {
	out := &checkpb.DecisionBatch{Decisions: make([]*checkpb.Decision, len(batch.GetChecks()))}
	for i := range out.Decisions {
		out.Decisions[i] = &checkpb.Decision{Error: why}
	}
	return out
}

// decideBatch decides all checks of a batch at once, since each waits for a
// write of its own.
func (d *Detector) decideBatch(batch *checkpb.CheckBatch) *checkpb.DecisionBatch {
	budget := time.Duration(batch.GetBudgetMs()) * time.Millisecond
	if budget == 0 || budget > d.cfg.MaxBudget {
		budget = d.cfg.MaxBudget
	}
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	defer cancel()
	out := &checkpb.DecisionBatch{Decisions: make([]*checkpb.Decision, len(batch.GetChecks()))}
	each(len(out.Decisions), func(i int) { out.Decisions[i] = d.decide(ctx, batch.GetChecks()[i]) })
	return out
}

// each runs f for 0 to n-1 at once and waits; the last one runs here.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n - 1 {
		wg.Go(func() { f(i) })
	}
	if n > 0 {
		f(n - 1)
	}
	wg.Wait()
}

// decide evaluates every counter of a check: none hides another. The strongest
// action that is not shadow wins.
func (d *Detector) decide(ctx context.Context, check *checkpb.Check) *checkpb.Decision {
	counters := check.GetCounters()
	findings := make([]*checkpb.Finding, len(counters))
	errs := make([]error, len(counters))
	out := &checkpb.Decision{HitCounts: make([]uint32, len(counters))}
	each(len(counters), func(i int) {
		findings[i], out.HitCounts[i], errs[i] = d.count(ctx, check, counters[i])
	})
	for _, f := range findings {
		if f == nil {
			continue
		}
		out.Findings = append(out.Findings, f)
		if !f.GetShadow() {
			out.Action = max(out.Action, f.GetAction())
		}
	}
	out.Error = d.explain(errors.Join(errs...))
	d.metrics.checks.WithLabelValues(out.GetAction().Label()).Inc()
	return out
}

// explain says on the wire why a check was not counted; the details are in
// metrics and the log, since they may name what the gateway must not.
func (d *Detector) explain(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errMalformed):
		d.metrics.malformed.Inc()
		return errorMalformed
	default:
		d.metrics.uncounted.Inc()
		d.log.Debug("check not counted", "error", err)
		return errorUncounted
	}
}

var errMalformed = errors.New("malformed")

// count applies one counter and records what it finds.
func (d *Detector) count(ctx context.Context, check *checkpb.Check, c *checkpb.Counter) (*checkpb.Finding, uint32, error) {
	params, err := counter.FromWire(c)
	if err != nil {
		return nil, 0, errors.Join(errMalformed, err)
	}
	hit := counter.Hit{N: int(min(check.GetHits(), maxHits)), Retry: check.GetRetry(), Incident: conversation(check, c)}
	verdict, now, err := d.step(ctx, c, params, hit, check.GetPeek())
	if err != nil || !verdict.Fired {
		return nil, uint32(verdict.Count), err
	}
	f := finding(c, verdict)
	if check.GetPeek() {
		return f, f.GetHitCount(), nil
	}
	f.LoopId, err = d.incidents.Record(ctx, incidentFinding(check, c, verdict, hit, now))
	if err != nil {
		d.metrics.unrecorded.Inc() // the verdict stands without its incident
	}
	if verdict.Began {
		d.broadcast(f)
	}
	return f, f.GetHitCount(), nil
}

// maxHits bounds what one message may add to a counter.
const maxHits = 1 << 20

func (d *Detector) step(ctx context.Context, c *checkpb.Counter, p counter.Params, hit counter.Hit, peek bool) (v counter.Verdict, now time.Time, err error) {
	key := counterKey(c)
	now = d.now()
	if peek {
		state, err := d.counters.Read(key)
		if err == nil {
			_, v = counter.Step(state, p, hit, now)
		}
		return v, now, err
	}
	err = d.counters.Apply(ctx, key, func(s counter.State) (counter.State, time.Duration) {
		s, v = counter.Step(s, p, hit, now)
		return s, s.TTL(p, now)
	})
	if err != nil {
		v = counter.Verdict{} // of a step that was not stored
	}
	return v, now, err
}

func counterKey(c *checkpb.Counter) string {
	return schemas.CounterKey(c.GetShadow(), c.GetDetector(), c.GetPolicy(), hex.EncodeToString(c.GetFingerprint()))
}

// conversation is what an incident belongs to: the session, or the
// fingerprint where there is none. A peer could send anything as a session, so
// what is no hash becomes one.
func conversation(check *checkpb.Check, c *checkpb.Counter) string {
	session := check.GetIdentity().GetSession()
	if session == "" {
		return hex.EncodeToString(c.GetFingerprint())
	}
	if _, err := hex.DecodeString(session); err == nil && len(session) <= 2*sha256.Size {
		return session
	}
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:])
}

func finding(c *checkpb.Counter, v counter.Verdict) *checkpb.Finding {
	return &checkpb.Finding{
		Policy: c.GetPolicy(), Detector: c.GetDetector(), Fingerprint: c.GetFingerprint(),
		Action: v.Action, Shadow: c.GetShadow(), HitCount: uint32(v.Count), Threshold: c.GetThreshold(),
		WindowSeconds: c.GetWindowSeconds(), CooldownSeconds: c.GetCooldownSeconds(),
		BlockedMs: uint32(v.Blocked / time.Millisecond), DelayMs: uint32(v.Delay / time.Millisecond),
	}
}

func incidentFinding(check *checkpb.Check, c *checkpb.Counter, v counter.Verdict, hit counter.Hit, at time.Time) incident.Finding {
	return incident.Finding{
		Conversation: v.Incident, Policy: c.GetPolicy(), Detector: c.GetDetector(), Shadow: c.GetShadow(),
		Action: v.Action, Fingerprint: c.GetFingerprint(), Hits: max(hit.N, 1), Count: v.Count,
		Threshold: int(c.GetThreshold()), WindowSeconds: int(c.GetWindowSeconds()), CooldownSeconds: int(c.GetCooldownSeconds()),
		Identity: check.GetIdentity(), RequestID: check.GetRequestId(), Model: check.GetModel(),
		InputTokens: int(check.GetInputTokens()), At: at,
	}
}

// broadcast tells every gateway that a reject stands from now on.
func (d *Detector) broadcast(f *checkpb.Finding) {
	if f.GetShadow() {
		return
	}
	body, err := proto.Marshal(&checkpb.Cooldown{Finding: f})
	if err == nil {
		err = d.deps.NATS.Publish(schemas.SubjectCooldown, body)
	}
	if err != nil {
		d.metrics.unanswered.Inc()
	}
}
