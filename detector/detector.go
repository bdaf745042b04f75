// Package detector decides what is a loop: it answers the checks of gateways
// from counters in JetStream KV, and records what it finds as incidents.
//
// Any number of detectors share the work and the state. A detector knows no
// policy: each check brings the parameters it is judged by. It sees
// fingerprints, and text only where a policy asks what it means, which it passes
// on to an embedding worker and forgets, or for excerpts in its events.
package detector

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"

	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/detector/internal/limit"
	"github.com/unloop/unloop/detector/internal/peers"
	"github.com/unloop/unloop/detector/internal/recorder"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/servertime"
	"github.com/unloop/unloop/schemas/kit/service"
)

// Detector is one detector. Make it with New.
type Detector struct {
	cfg  Config
	deps service.Deps
	log  *slog.Logger
	// id is what other detectors know this one by.
	id        string
	now       func() time.Time
	clock     *servertime.Clock
	peers     *peers.Peers
	presence  presence
	handovers *natskit.Inbox
	counters  records[counter.State]
	blocks    *blocks
	// storedBlocks are the blocks in their bucket.
	storedBlocks records[blockRecord]
	sessions     records[session]
	limits       records[limit.State]
	semantics    *semantics // nil where no worker can be asked
	incidents    *recorder.Recorder
	fill         *natskit.Fill
	record       func(context.Context, incident.Finding) (loopID string, err error)
	openLoop     func(incident.Finding) (loopID string)
	resolve      func(context.Context, incident.Finding) error
	publish      func(subject string, body []byte) error
	metrics      *metrics
	heart        *heart
	ready        service.Readiness
	// slots has one element for each message under way, and is full once the
	// detector has stopped.
	slots chan struct{}
	// working are the goroutines of those messages, and verdicts that come later.
	working sync.WaitGroup
}

// records is where states are kept: a ledger in JetStream, or in memory.
type records[S any] interface {
	Start(ctx context.Context, key string, step ledger.Step[S], done func(error))
	Apply(ctx context.Context, key string, step ledger.Step[S]) error
	Read(key string) (S, error)
}

// Option changes what New makes.
type Option func(*Detector)

// WithClock makes the detector judge windows and cooldowns by another clock than the
// NATS server's; nil is none.
func WithClock(now func() time.Time) Option {
	return func(d *Detector) {
		if now != nil {
			d.now = now
		}
	}
}

// WithLocalClock takes another clock for the machine's, which may be wrong.
func WithLocalClock(now func() time.Time) Option {
	return func(d *Detector) { d.clock.SetLocal(now) }
}

// idLength is that of an id that no other running detector has.
const idLength = 6

// New returns a detector; Run starts it.
func New(cfg Config, deps service.Deps, opts ...Option) (*Detector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure detector: %w", err)
	}
	d := &Detector{cfg: cfg, deps: deps, log: deps.Log, slots: make(chan struct{}, cfg.MaxInFlight), metrics: newMetrics(deps.Metrics)}
	d.clock = servertime.New(deps.NATS.ServerTime, deps.Log)
	d.now = d.clock.Now
	deps.Metrics.MustRegister(d.clock.Gauge("unloop_detector_clock_offset_seconds"))
	for _, opt := range opts {
		opt(d)
	}
	d.id = nuid.New().Next()[:idLength]
	d.peers, d.handovers = peers.New(d.id, time.Now), natskit.NewInbox(deps.NATS, handoverTimeout)
	owners := ledger.WithOwners(d.peers)
	d.counters = ledger.New[counter.State](deps.NATS, schemas.BucketCounters, deps.Metrics, owners)
	d.blocks, d.storedBlocks = newBlocks(), ledger.New[blockRecord](deps.NATS, schemas.BucketBlocks, deps.Metrics)
	d.limits = ledger.New[limit.State](deps.NATS, schemas.BucketLimits, deps.Metrics, owners, ledger.WithConfirm())
	d.sessions = ledger.New[session](deps.NATS, schemas.BucketSessions, deps.Metrics, owners)
	d.semantics = newSemantics(deps)
	d.fill = natskit.NewFill(deps.NATS, deps.Log, deps.Metrics)
	d.heart = newHeart(deps.NATS)
	d.incidents = recorder.New(deps.NATS, deps.Metrics, deps.Log, func() time.Time { return d.now() })
	d.record, d.openLoop, d.resolve, d.publish = d.incidents.Record, d.incidents.Open, d.incidents.Resolve, deps.NATS.Publish
	return d, nil
}

// Readiness says whether the detector takes checks.
func (d *Detector) Readiness() *service.Readiness { return &d.ready }

// Run takes checks until the context ends, then answers those it has taken.
func (d *Detector) Run(ctx context.Context) error {
	if err := d.deps.NATS.EnsureStreams(ctx, d.deps.Layout); err != nil {
		return err
	}
	d.clock.Start(ctx)
	unsubscribe, err := d.subscribe()
	if err != nil {
		return err
	}
	if err := d.loadBlocks(ctx); err != nil {
		d.log.Warn("standing blocks could not be read; the counters have them as well", "error", err)
	}
	beating, stopBeating := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBeating()
	d.heart.mark()
	go d.heart.run(beating, ctx)
	stopLoopback := d.deps.Loopback.Serve(schemas.SubjectCheck, d.onCheck)
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriting()
	recorded := make(chan struct{})
	go func() { defer close(recorded); d.incidents.Run(writing) }()
	watched := make(chan struct{})
	go func() { defer close(watched); d.fill.Run(writing) }()

	d.ready.Set(nil)
	d.announcePresence(ctx)
	d.ready.Set(context.Cause(ctx))
	stopLoopback()
	d.stop(unsubscribe)
	stopWriting()
	<-recorded
	<-watched
	return nil
}

// stopTimeout bounds how long the server may take to hear that this detector
// goes, and how long messages that it has sent before may take to begin.
const stopTimeout = time.Second

// stop takes no more messages and finishes those that were taken.
func (d *Detector) stop(unsubscribe func()) {
	unsubscribe()
	d.deps.NATS.CatchUp(stopTimeout) // from now on, checks go to other detectors
	for range cap(d.slots) {
		d.slots <- struct{}{}
	}
	d.working.Wait()
}

// subscribe registers the detector as a NATS micro service, which makes it
// show in `nats micro ls` with its own statistics.
func (d *Detector) subscribe() (stop func(), err error) {
	stopService, err := d.deps.NATS.Respond(micro.Config{
		Name: "unloop-detector", Version: "0.1.0", QueueGroup: schemas.QueueDetector,
		Description: "Decides what is a loop",
	},
		natskit.Responder{Name: "check", Subject: schemas.SubjectCheck, Handle: d.onRemoteCheck},
		natskit.Responder{Name: "check-own", Subject: schemas.DetectorSubject(d.heart.name), Handle: d.onRemoteCheck},
		natskit.Responder{Name: "release", Subject: schemas.SubjectRelease, Handle: d.onRelease},
		natskit.Responder{Name: "outcome", Subject: schemas.SubjectOutcome, Handle: d.onOutcome},
		natskit.Responder{Name: "handover", Subject: schemas.SubjectDetectors + "." + schemas.Token(d.id), Handle: d.onHandover},
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
	for subject, handle := range map[string]func(*nats.Msg){schemas.SubjectForget: d.onForget, blockSubject + ">": d.onBlock, schemas.SubjectDetectors: d.onPresence} {
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
