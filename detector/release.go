package detector

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/recorder"
	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// releaseTimeout bounds an operator's release.
const releaseTimeout = 10 * time.Second

func (d *Detector) onRelease(req natskit.Request) {
	var r checkpb.ReleaseRequest
	if err := proto.Unmarshal(req.Data, &r); err != nil {
		d.metrics.malformed.Inc()
		return
	}
	d.spawn(func() { d.reply(req, d.release(r.GetLoopId())) },
		func() { d.reply(req, &checkpb.ReleaseReply{Error: errorOverloaded}) })
}

// release resets an incident's counters and has every gateway and detector
// forget what it remembers of them.
func (d *Detector) release(loopID string) *checkpb.ReleaseReply {
	ctx, cancel := context.WithTimeout(ledger.Stay(context.Background()), releaseTimeout)
	defer cancel()
	refs, err := d.incidents.Release(ctx, loopID, d.reset)
	if errors.Is(err, recorder.ErrNotOpen) {
		return &checkpb.ReleaseReply{Error: err.Error()}
	}
	if err != nil {
		d.log.Warn("loop not released", "loop_id", loopID, "error", err)
		return &checkpb.ReleaseReply{Error: "the store did not answer; try again"}
	}
	for part := range slices.Chunk(refs, maxRefs) {
		if err := d.forget(&checkpb.Forget{Counters: part, LoopId: loopID}); err != nil {
			return &checkpb.ReleaseReply{Error: "gateways were not told; try again"}
		}
	}
	return &checkpb.ReleaseReply{Released: refs[:min(len(refs), maxRefs)], Count: uint32(len(refs))}
}

// maxRefs is how many counters a message names at the most.
const maxRefs = 1000

func (d *Detector) forget(f *checkpb.Forget) error {
	body, err := proto.Marshal(f)
	if err != nil {
		return err
	}
	return d.publish(schemas.SubjectForget, body)
}

// onForget looks again at a released incident with its next finding.
func (d *Detector) onForget(m *nats.Msg) {
	var f checkpb.Forget
	if err := proto.Unmarshal(m.Data, &f); err != nil {
		d.metrics.malformed.Inc()
		return
	}
	d.incidents.Forget(f.GetLoopId())
	for _, ref := range f.GetCounters() {
		for _, key := range recordKeys(ref) {
			d.blocks.forget(key)
		}
	}
}

// reset forgets one counter's hits. An agent's tool calls are not forgotten but
// released: its next request shows them all again.
func (d *Detector) reset(ctx context.Context, ref *checkpb.CounterRef, kept time.Duration) error {
	if ref.GetDetector() == detectorSemantic {
		return d.endStreak(ctx, ref, kept)
	}
	if ref.GetDetector() == detectorBreaker {
		return d.resetBreaker(ctx, ref)
	}
	if ref.GetDetector() != toolloop.DetectorTool && ref.GetDetector() != toolloop.DetectorCycle {
		return d.resetCounter(ctx, ref)
	}
	key := schemas.SessionKey(ref.GetShadow(), ref.GetPolicy(), hex.EncodeToString(ref.GetFingerprint()))
	return d.sessions.Apply(ctx, key, func(s session) (session, time.Duration) {
		if s.IsZero() {
			return s, 0
		}
		s.State = toolloop.Release(s.State)
		return s, max(kept, toolloop.DefaultParams().Idle).Truncate(time.Second) + time.Second
	})
}

// related are the rows that a request has in a policy whatever counts it: of what
// its texts say, and of its agent's tool calls.
func related(check *checkpb.Check, policy string, shadow bool) []event.Counter {
	var out []event.Counter
	for _, w := range check.GetSemantics() {
		if w.GetPolicy() == policy && w.GetShadow() == shadow {
			out = append(out, event.Counter{
				Detector: detectorSemantic, Fingerprint: hex.EncodeToString(w.GetScope()), KeptSeconds: int(streakTTL(w) / time.Second),
			})
		}
	}
	for _, w := range check.GetWatches() {
		if w.GetPolicy() == policy && w.GetShadow() == shadow {
			out = append(out, event.Counter{
				Detector: toolloop.DetectorTool, Fingerprint: hex.EncodeToString(w.GetAgent()), KeptSeconds: int(w.GetParams().GetIdleSeconds()),
			})
		}
	}
	return out
}

// relatedCounters are the counters that a request has in a policy.
func relatedCounters(check *checkpb.Check, policy string, shadow bool) []event.Counter {
	var out []event.Counter
	for _, c := range check.GetCounters() {
		if c.GetPolicy() == policy && c.GetShadow() == shadow {
			out = append(out, event.Counter{
				Detector: c.GetDetector(), Fingerprint: hex.EncodeToString(c.GetFingerprint()), KeptSeconds: int(c.GetWindowSeconds()),
			})
		}
	}
	return out
}

// resetCounter removes a counter's record. That of a prompt may be named by the
// beginning of the fingerprint, and goes with all its parts.
func (d *Detector) resetCounter(ctx context.Context, ref *checkpb.CounterRef) error {
	for _, key := range recordKeys(ref) {
		if err := d.releaseBlock(ctx, ref, key); err != nil {
			return err
		}
		if err := d.incidents.Purge(ctx, schemas.BucketCounters, key); err != nil {
			return err
		}
	}
	return nil
}

// recordKeys are the keys that a counter's record may have.
func recordKeys(ref *checkpb.CounterRef) (keys []string) {
	names := []string{hex.EncodeToString(ref.GetFingerprint())}
	if ref.GetDetector() == detectorPrompt {
		names = append(names, counter.RecordName(ref.GetFingerprint()))
	}
	for _, name := range slices.Compact(names) {
		keys = append(keys, schemas.CounterKey(ref.GetShadow(), ref.GetDetector(), ref.GetPolicy(), name))
	}
	return keys
}

// onOutcome notes for each counter and text that its last call came to nothing,
// and what estimates were wrong by.
func (d *Detector) onOutcome(req natskit.Request) {
	var o checkpb.Outcome
	if err := proto.Unmarshal(req.Data, &o); err != nil {
		d.metrics.malformed.Inc()
		return
	}
	if d.enter() {
		d.settle(&o, d.leave)
	}
}

// settle excuses counters and texts, and corrects limits.
func (d *Detector) settle(o *checkpb.Outcome, done func()) {
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.MaxBudget)
	d.settleParts(ctx, o, func() {
		cancel()
		done()
	})
}

// settleParts settles each part of an outcome. A part whose key belongs to another
// detector is handed to that one.
func (d *Detector) settleParts(ctx context.Context, o *checkpb.Outcome, done func()) {
	counters, corrections, texts := o.GetCounters(), o.GetCorrections(), o.GetSemantics()
	each(len(counters)+len(corrections)+len(texts), func(i int, done func()) {
		settled := func(err error) {
			if err != nil {
				d.metrics.uncounted.Inc()
			}
			done()
		}
		switch counted := len(counters) + len(corrections); {
		case i < len(counters):
			part := &checkpb.Outcome{Counters: counters[i : i+1], Aborted: o.GetAborted()}
			d.excuse(ctx, counters[i], o.GetAborted(), d.orElsewhere(ctx, part, settled))
		case i < counted:
			one := corrections[i-len(counters) : i-len(counters)+1]
			d.correct(ctx, one[0], d.orElsewhere(ctx, &checkpb.Outcome{Corrections: one}, settled))
		default:
			d.excuseText(ctx, texts[i-counted], o.GetText(), settled)
		}
	}, done)
}

// orElsewhere hands part of an outcome to the detector that its key belongs to,
// before it calls done.
func (d *Detector) orElsewhere(ctx context.Context, part *checkpb.Outcome, done func(error)) func(error) {
	return func(err error) {
		elsewhere, ok := errors.AsType[*ledger.ElsewhereError](err)
		if !ok {
			done(err)
			return
		}
		d.send(ctx, elsewhere.Owner, &checkpb.Handover{Outcome: part}, func(_ *checkpb.Decision, err error) {
			if errors.Is(err, errGone) {
				d.settleParts(ledger.Stay(ctx), part, func() { done(nil) })
				return
			}
			done(err)
		})
	}
}

func (d *Detector) excuse(ctx context.Context, c *checkpb.Counter, aborted bool, done func(error)) {
	h, err := d.newHit(&checkpb.Check{}, c)
	if err != nil {
		done(err)
		return
	}
	d.counters.Start(ctx, counterKey(c), func(s counter.State) (counter.State, time.Duration) {
		switch {
		case len(s.Parts) > 0:
			return counter.ExcusePart(s, h.parts.Mark, aborted), s.PartsTTL(h.parts, d.now())
		case s.Count > 0:
			return counter.Excuse(s, aborted), s.TTL(h.parts.Own, d.now())
		default:
			return s, 0
		}
	}, done)
}
