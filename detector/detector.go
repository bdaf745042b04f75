// Package detector decides what is a loop: it answers the checks of gateways from
// records in JetStream KV, and records its findings as incidents.
//
// Any number of detectors share the work and the records. A detector knows no policies:
// each check brings the parameters that it is evaluated with. It sees fingerprints. It gets
// text only if a policy compares texts, which it passes on to an embedding worker, or if a
// policy has excerpts in events.
package detector

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/unloop/unloop/detector/internal/blocks"
	"github.com/unloop/unloop/detector/internal/comparing"
	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/decide"
	"github.com/unloop/unloop/detector/internal/handover"
	"github.com/unloop/unloop/detector/internal/heartbeat"
	"github.com/unloop/unloop/detector/internal/limit"
	"github.com/unloop/unloop/detector/internal/metrics"
	"github.com/unloop/unloop/detector/internal/recorder"
	"github.com/unloop/unloop/detector/internal/release"
	"github.com/unloop/unloop/detector/internal/streak"
	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/detector/internal/workload"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/fleet"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/servertime"
	"github.com/unloop/unloop/schemas/kit/service"
	"github.com/unloop/unloop/schemas/kit/spare"
	"github.com/unloop/unloop/schemas/status"
)

// Detector is one detector. Make it with New.
type Detector struct {
	deps      service.Deps
	now       func() time.Time
	clock     *servertime.Clock
	fleet     *fleet.Fleet
	heart     *heartbeat.Heart
	blocks    *blocks.Blocks
	incidents *recorder.Recorder
	fill      *natskit.Fill
	decider   decide.Decider
	releaser  release.Releaser
	metrics   *metrics.Metrics
	ready     service.Readiness
	// slots has one element for each message in flight, and is full once the detector has
	// stopped.
	slots chan struct{}
	// goroutines run work that waits.
	goroutines *spare.Goroutines
}

// Option changes what New makes.
type Option func(*Detector)

// WithClock replaces the NATS server's clock, which measures windows and cooldowns; nil
// keeps it.
func WithClock(now func() time.Time) Option {
	return func(d *Detector) {
		if now != nil {
			d.now = now
		}
	}
}

// maxInFlight is how many messages a detector processes at the same time. Further ones are
// refused as overloaded.
const maxInFlight = 4096

// New returns a detector; Run starts it.
func New(deps service.Deps, opts ...Option) (*Detector, error) {
	d := &Detector{deps: deps, slots: make(chan struct{}, maxInFlight), goroutines: spare.New(), metrics: metrics.New(deps.Metrics)}
	d.clock = servertime.New(time.Now, deps.NATS.ServerTime, deps.Log)
	d.now = d.clock.Now
	for _, opt := range opts {
		opt(d)
	}
	deps.Metrics.MustRegister(d.clock.Gauge("unloop_detector_clock_offset_seconds"))
	metric.GaugeFunc(deps.Metrics, "unloop_detector_under_way", "Messages in flight.", func() float64 { return float64(len(d.slots)) })
	d.fleet = fleet.New(time.Now)
	d.heart = heartbeat.New(deps.NATS)
	d.fill = natskit.NewFill(deps.NATS, deps.Layout, deps.Log, deps.Metrics)
	d.incidents = recorder.New(deps.NATS, deps.Layout, deps.Metrics, deps.Log, d.now)
	d.blocks = blocks.New(deps.NATS, deps.Metrics, deps.Log, d.now)
	d.wire(ledger.WithOwners(handover.NewOwners(d.heart.Name(), d.fleet, time.Now)))
	d.decider.Semantic.Goroutines = d.goroutines
	return d, nil
}

// wire makes the components that use stored records.
func (d *Detector) wire(owners ledger.Option) {
	nc, reg := d.deps.NATS, d.deps.Metrics
	counters := ledger.New[counter.State](nc, schemas.BucketCounters, reg, owners, ledger.WithPacked())
	sessions := ledger.New[toolloop.State](nc, schemas.BucketSessions, reg, owners, ledger.WithTrust(d.fleet.Changed))
	limits := ledger.New[limit.State](nc, schemas.BucketLimits, reg, owners, ledger.WithConfirm())
	budgets := ledger.New[limit.State](nc, schemas.BucketBudgets, reg, owners, ledger.WithConfirm())
	streaks := ledger.New[streak.State](nc, schemas.BucketSessions, reg, ledger.WithConfirm())
	worker := comparing.AskOver(natskit.NewInbox(nc, comparing.AnswerTimeout).Prefer(d.deps.InProcess))
	d.decider = decide.Decider{
		Log: d.deps.Log, Now: d.now, Metrics: d.metrics, Counters: counters, Sessions: sessions,
		Limits: limits, Budgets: budgets, Room: natskit.NewRoom(nc, schemas.BucketBudgets),
		Incidents: d.incidents, Workloads: workload.New(), Cooldowns: d.blocks, Peers: handover.NewSender(nc, d.fleet, d.metrics), Publish: nc.Publish,
		Semantic: comparing.New(streaks, worker, d.incidents.Record, d.now, d.metrics, reg),
	}
	d.releaser = release.Releaser{
		Log: d.deps.Log, Now: d.now, Counters: counters, Sessions: sessions, Budgets: budgets, Streaks: streaks,
		Blocks: d.blocks, Incidents: d.incidents, Publish: nc.Publish,
	}
}

// Describe adds the partitions to the detector's status.
func (d *Detector) Describe(s *status.Status) { s.Partitions = d.deps.NATS.Partitions().Count }

// Readiness reports whether the detector takes checks.
func (d *Detector) Readiness() *service.Readiness { return &d.ready }

// Streams returns the streams that the detector needs, and those that it creates only because
// it monitors them or because no other service may be there to do so.
func (*Detector) Streams() (needed, others []string) {
	needed = []string{schemas.StreamEvents}
	for _, bucket := range []string{schemas.BucketCounters, schemas.BucketBlocks, schemas.BucketIncidents, schemas.BucketTimers, schemas.BucketSessions, schemas.BucketLimits, schemas.BucketBudgets} {
		needed = append(needed, natskit.BucketStream(bucket))
	}
	return needed, slices.DeleteFunc(natskit.Layout{}.Streams(), func(name string) bool { return slices.Contains(needed, name) })
}

// Run takes checks until the context ends, then answers those it has taken.
func (d *Detector) Run(ctx context.Context) error {
	needed, others := d.Streams()
	if err := d.deps.NATS.EnsureStreams(ctx, d.deps.Layout.Of(needed, others...)); err != nil {
		return err
	}
	d.clock.Start(ctx)
	unsubscribe, err := d.subscribe()
	if err != nil {
		return err
	}
	reconnected, stopListening := d.deps.NATS.Changed()
	defer stopListening()
	if err := d.blocks.Load(ctx); err != nil {
		d.deps.Log.Warn("standing blocks could not be read; the counters have them as well", "error", err)
	}
	beating, stopBeating := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBeating()
	go d.heart.Run(beating, ctx)
	stopChecks := d.deps.InProcess.Serve(schemas.SubjectCheck, d.onCheck)
	stopOutcomes := d.deps.InProcess.Serve(schemas.SubjectOutcome, d.onOutcome)
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriting()
	var background sync.WaitGroup
	background.Go(func() { d.incidents.Run(writing) })
	background.Go(func() { d.incidents.ResolveExpired(ctx) })
	background.Go(func() { d.blocks.Follow(ctx, reconnected) })
	background.Go(func() { d.fill.Run(writing) })

	d.ready.Set(nil)
	<-ctx.Done()
	d.ready.Set(context.Cause(ctx))
	stopChecks()
	stopOutcomes()
	d.stop(unsubscribe)
	stopWriting()
	background.Wait()
	return nil
}

// stopTimeout bounds how long the server may take to end the subscriptions of this
// detector and to deliver the messages that it sent before.
const stopTimeout = time.Second

// stop takes no more messages and waits until those that were taken are finished.
func (d *Detector) stop(unsubscribe func()) {
	unsubscribe()
	d.deps.NATS.CatchUp(stopTimeout) // from now on, checks go to other detectors
	for range cap(d.slots) {
		d.slots <- struct{}{}
	}
	d.decider.Semantic.Wait()
	d.goroutines.Stop()
}

// subscribe registers the detector as a NATS micro service, so that `nats micro ls`
// shows it with its own statistics.
func (d *Detector) subscribe() (stop func(), err error) {
	stopService, err := d.deps.NATS.Respond(micro.Config{
		Name: "unloop-detector", Version: "0.1.0", QueueGroup: schemas.QueueDetector,
		Description: "Decides what is a loop",
	},
		natskit.Responder{Name: "check", Subject: schemas.SubjectCheck, Handle: d.onRemoteCheck},
		natskit.Responder{Name: "check-own", Subject: schemas.DetectorSubject(d.heart.Name()), Handle: d.onRemoteCheck},
		natskit.Responder{Name: "release", Subject: schemas.SubjectRelease, Handle: d.onRelease},
		natskit.Responder{Name: "outcome", Subject: schemas.SubjectOutcome, Handle: d.onOutcome},
		natskit.Responder{Name: "outcome-own", Subject: schemas.OutcomeSubject(d.heart.Name()), Handle: d.onOutcome},
		natskit.Responder{Name: "handover", Subject: handover.Subject(d.heart.Name()), Handle: d.onHandover},
	)
	if err != nil {
		return nil, err
	}
	stops := []func(){stopService}
	stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	for subject, handle := range map[string]func(*nats.Msg){
		schemas.SubjectForget: d.onForget, schemas.SubjectBeat: func(m *nats.Msg) { d.fleet.Hear(string(m.Data)) },
		blocks.Subjects: d.blocks.OnStored, recorder.BreakerSubjects: d.incidents.OnBreaker,
	} {
		stopOne, err := d.deps.NATS.Subscribe(subject, handle)
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, stopOne)
	}
	d.deps.NATS.Flush(stopTimeout)
	return stop, nil
}
