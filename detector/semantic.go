package detector

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/detector/internal/streak"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
	"github.com/unloop/unloop/schemas/semanticpb"
)

const (
	detectorSemantic = "semantic"
	// lateFor is how long a verdict is of use: it then applies to the scope's
	// next request.
	lateFor = 3 * time.Second
	// awayFor is how long no worker is asked after there was none.
	awayFor = 250 * time.Millisecond
	// maxAsked bounds the texts that workers have not answered; beyond, requests
	// pass unjudged.
	maxAsked = 4096
	// maxReserve bounds what is left of a check's budget for its way back, on a
	// machine under load too: two fifths of it, 20 of 50 ms.
	maxReserve = 50 * time.Millisecond
	// The throttle is that of the exact detectors.
	delayStep, maxDelay = 100 * time.Millisecond, 30 * time.Second
)

// semantics asks the embedding workers, and keeps what they found.
type semantics struct {
	streaks *ledger.Ledger[streak.State, *streak.State]
	inbox   *natskit.Inbox
	// asked are the texts without an answer yet.
	asked atomic.Int64
	// away is until when no worker is asked, in Unix nanoseconds.
	away    atomic.Int64
	results *prometheus.CounterVec
	seconds prometheus.Histogram
}

func newSemantics(deps service.Deps) *semantics {
	s := &semantics{
		streaks: ledger.New[streak.State](deps.NATS, schemas.BucketSessions, deps.Metrics, ledger.WithConfirm()),
		inbox:   natskit.NewInbox(deps.NATS, lateFor).Prefer(deps.Loopback),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "unloop_detector_semantic_checks_total",
			Help: "Semantic checks by result: detected, clear, short (not judged), late (applies to the next request), retry, or why the request passed unjudged.",
		}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "unloop_detector_semantic_seconds", Help: "Time until an embedding worker answered.",
			Buckets: []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}),
	}
	deps.Metrics.MustRegister(s.results, s.seconds)
	return s
}

func (s *semantics) isAway() bool { return time.Now().UnixNano() < s.away.Load() }

// opinions are the semantic watches of a check. Without workers there are none.
func (d *Detector) opinions(check *checkpb.Check) []*opinion {
	if len(check.GetSemantics()) == 0 || d.semantics == nil {
		return nil
	}
	if d.semantics.isAway() {
		d.semantics.results.WithLabelValues("no-worker").Add(float64(len(check.GetSemantics())))
		return nil
	}
	var out []*opinion
	for _, w := range check.GetSemantics() {
		if !expected(check, w) {
			out = append(out, &opinion{check: check, watch: w, received: time.Now()})
		}
	}
	return out
}

// weigh adds what texts mean to a decision on what was counted. A request that
// is stopped anyway costs no embedding.
func (d *Detector) weigh(ctx context.Context, opinions []*opinion, decision *checkpb.Decision, done func(*checkpb.Decision)) {
	stopped := decision.GetAction().Stops()
	each(len(opinions), func(i int, done func()) {
		o := opinions[i]
		o.exact = exactHits(o.check, decision.GetHitCounts(), o.watch)
		if stopped {
			done()
			return
		}
		o.settle = done
		d.consider(ctx, o)
	}, func() {
		for _, o := range opinions {
			if f := o.result(); f != nil {
				decision.Findings = append(decision.Findings, f)
				if !f.GetShadow() {
					decision.Action = max(decision.Action, f.GetAction())
				}
			}
		}
		d.metrics.checks.WithLabelValues(decision.GetAction().Label()).Inc()
		done(decision)
	})
}

// consider gives the request what its text comes to. Where its own verdict is
// not waited for, or may not be asked for, what is known of the requests before
// comes first.
func (d *Detector) consider(ctx context.Context, o *opinion) {
	switch {
	case len(o.watch.GetScope()) != 32 || len(o.watch.GetSteps()) == 0:
		d.metrics.malformed.Inc()
		o.end(nil)
	case o.watch.GetDeferred() || o.check.GetRetry() && !o.check.GetPeek():
		d.recall(ctx, o, func(r streak.Recalled, err error) {
			d.note(ctx, o, []*checkpb.Finding{o.late(r)}, func() { d.askAfter(ctx, o, r, err) })
		})
	default:
		d.askWorker(ctx, o)
	}
}

// askAfter goes on when it is known what the requests before came to. A retry
// passes unjudged, unless there were too many.
func (d *Detector) askAfter(ctx context.Context, o *opinion, r streak.Recalled, err error) {
	d.working.Add(1) // the request may be answered before its text was sent
	defer d.working.Done()
	if r.Retry {
		d.semantics.results.WithLabelValues("retry").Inc()
	}
	skip := err != nil || r.Retry
	if skip || o.watch.GetDeferred() {
		o.end(nil)
	}
	if !skip && !o.check.GetPeek() {
		d.askWorker(ctx, o)
	}
}

// recall begins the request in its scope's streak, which says what is known of
// the requests before: of this one nothing is. Whatever is wrong with the
// store, the request passes.
func (d *Detector) recall(ctx context.Context, o *opinion, done func(streak.Recalled, error)) {
	if o.check.GetPeek() {
		d.working.Go(func() {
			s, err := d.semantics.streaks.Read(o.key())
			_, r, _ := streak.Recall(s, o.check.GetRetry())
			done(r, d.storeError(err))
		})
		return
	}
	var r streak.Recalled
	d.semantics.streaks.Start(ctx, o.key(), func(s streak.State) (streak.State, time.Duration) {
		next, recalled, changed := streak.Recall(s, o.check.GetRetry())
		r = recalled
		if !changed {
			return s, 0
		}
		return next, o.ttl()
	}, func(err error) {
		if err != nil {
			r = streak.Recalled{}
		}
		done(r, d.storeError(err))
	})
}

func (d *Detector) storeError(err error) error {
	if err != nil {
		d.semantics.results.WithLabelValues("store-error").Inc()
	}
	return err
}

// askWorker asks for a verdict. The request goes on when it is there, or when it
// can't wait any longer.
func (d *Detector) askWorker(ctx context.Context, o *opinion) {
	body, err := proto.Marshal(o.request())
	if err != nil || d.semantics.asked.Add(1) > maxAsked {
		if err == nil {
			d.semantics.asked.Add(-1)
		}
		d.semantics.results.WithLabelValues("overloaded").Inc()
		o.end(nil)
		return
	}
	timer := time.AfterFunc(o.wait(ctx), func() { d.outOfTime(ctx, o) })
	// A detector that stops still keeps the verdicts that it waits for.
	d.working.Add(1)
	d.semantics.inbox.Request(&nats.Msg{Subject: schemas.SubjectSemantic, Data: body}, func(data []byte, err error) {
		d.semantics.asked.Add(-1)
		d.verdict(ctx, o, d.semantics.read(o, data, err), func() {
			timer.Stop()
			o.end(nil)
			d.working.Done()
		})
	})
}

// outOfTime lets the request go on without its verdict, with what came too late
// for the one before.
func (d *Detector) outOfTime(ctx context.Context, o *opinion) {
	if o.isSettled() {
		return
	}
	d.recall(context.WithoutCancel(ctx), o, func(r streak.Recalled, _ error) {
		d.note(ctx, o, []*checkpb.Finding{o.late(r)}, func() { o.end(nil) })
	})
}

// verdict is what a worker found. The zero value is none.
type verdict struct {
	judged, found bool
	// compared is with how many earlier texts.
	compared   int
	similarity float64
}

// read reads a worker's answer; a metric has why it is no verdict.
func (s *semantics) read(o *opinion, data []byte, err error) verdict {
	var reply semanticpb.SemanticReply
	if err == nil {
		s.seconds.Observe(time.Since(o.received).Seconds())
		err = proto.Unmarshal(data, &reply)
	}
	result := "clear"
	switch {
	case errors.Is(err, natskit.ErrNoResponder):
		result = "no-worker"
		s.away.Store(time.Now().Add(awayFor).UnixNano())
	case err != nil:
		result = "no-answer"
	case reply.GetError() == semanticpb.SemanticError_SEMANTIC_ERROR_BUSY:
		result = "overloaded"
	case reply.GetError() != semanticpb.SemanticError_SEMANTIC_ERROR_NONE:
		result = "worker-error"
	case !reply.GetJudged():
		result = "short"
	case reply.GetDetected():
		result = "detected"
	}
	s.results.WithLabelValues(result).Inc()
	return verdict{
		judged: result == "clear" || result == "detected", found: result == "detected",
		compared: int(reply.GetCompared()), similarity: reply.GetMaxSimilarity(),
	}
}

// verdict adds a worker's verdict to the scope's streak and makes a finding of
// it, for this request if it still waits, else for the next. A text that had
// nothing to be compared with is its scope's first, of which there is no streak:
// most requests are such, and cost no look at it.
func (d *Detector) verdict(ctx context.Context, o *opinion, v verdict, done func()) {
	switch {
	case v.judged && v.compared == 0 && !v.found:
		done()
		return
	case o.check.GetPeek():
		d.recall(ctx, o, func(r streak.Recalled, err error) {
			switch {
			case err == nil && v.found:
				o.end(o.finding(r.Findings+1, v.similarity))
			case err == nil:
				o.end(o.late(r))
			}
			done()
		})
		return
	}
	var r streak.Recalled
	count, late := 0, false
	// It counts whether or not its request still waits.
	d.semantics.streaks.Start(context.WithoutCancel(ctx), o.key(), func(s streak.State) (streak.State, time.Duration) {
		next := s
		if r, late = (streak.Recalled{}), o.isSettled(); !late {
			next, r, _ = streak.Recall(s, false)
		}
		if v.judged {
			next = streak.Judge(next, v.found, v.similarity, late)
		}
		count = next.Findings
		switch next {
		case s:
			return s, 0
		case streak.State{}:
			return next, time.Second // nothing to be kept
		default:
			return next, o.ttl()
		}
	}, func(err error) {
		if d.storeError(err) != nil {
			d.metrics.uncounted.Inc()
			done()
			return
		}
		findings := []*checkpb.Finding{o.late(r)}
		switch {
		case v.found && late:
			d.semantics.results.WithLabelValues("late").Inc()
		case v.found:
			findings = append(findings, o.finding(count, v.similarity))
		}
		d.note(ctx, o, findings, done)
	})
}

// note records findings in their incident and keeps the last one for the
// request; nil is none.
func (d *Detector) note(ctx context.Context, o *opinion, findings []*checkpb.Finding, done func()) {
	findings = slices.DeleteFunc(findings, func(f *checkpb.Finding) bool { return f == nil })
	if len(findings) == 0 {
		done()
		return
	}
	go func() { // the incident waits for a write of its own
		for _, f := range findings {
			if !o.check.GetPeek() {
				f.LoopId = d.recordOpinion(ctx, o, f)
			}
			o.keep(f)
		}
		done()
	}()
}

// recordOpinion notes a finding in its incident and returns the incident's id.
func (d *Detector) recordOpinion(ctx context.Context, o *opinion, f *checkpb.Finding) string {
	id, err := d.record(ctx, incident.Finding{
		Conversation: conversation(o.check, f.GetFingerprint()), Policy: f.GetPolicy(), Detector: f.GetDetector(), Shadow: f.GetShadow(),
		Action: f.GetAction(), Fingerprint: f.GetFingerprint(), Hits: 1, Count: int(f.GetHitCount()), Threshold: int(f.GetThreshold()),
		WindowSeconds: int(f.GetWindowSeconds()), Similarity: f.GetSimilarity(),
		Identity: o.check.GetIdentity(), RequestID: o.check.GetRequestId(), Model: o.check.GetModel(),
		InputTokens: int(o.check.GetInputTokens()), Excerpt: excerpt(o.check, f.GetPolicy()), At: d.now(),
	})
	if err != nil {
		d.metrics.unrecorded.Inc()
	}
	return id
}

// endStreak forgets a scope's findings in a row, after an operator's release.
func (d *Detector) endStreak(ctx context.Context, ref *checkpb.CounterRef) error {
	key := schemas.StreakKey(ref.GetShadow(), ref.GetPolicy(), hex.EncodeToString(ref.GetFingerprint()))
	return d.semantics.streaks.Apply(ctx, key, func(s streak.State) (streak.State, time.Duration) {
		if s == (streak.State{}) {
			return s, 0
		}
		return streak.State{}, time.Second
	})
}
