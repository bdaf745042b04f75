package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

// Waits between attempts to begin anew after something broke.
const (
	retryMin = 50 * time.Millisecond
	retryMax = 5 * time.Second
)

// Config says how messages are taken in.
type Config struct {
	// Places is how many messages are handled at once, at least 1.
	Places int
	// Reach is how far back in time a consumer begins that does not exist yet.
	Reach time.Duration
	// Grace is how long handlers may go on after the end, before their context
	// ends as well.
	Grace time.Duration
	// Layout is for streams that are missing.
	Layout natskit.Layout
	// Returned, if not nil, gets each message that is returned unhandled.
	Returned func(jetstream.Msg)
}

// Handler handles one message and acknowledges it. Its context ends after the
// intake's, by the grace.
type Handler func(ctx context.Context, msg jetstream.Msg)

// Intake is one process's share of the event stream.
type Intake struct {
	nc     *natskit.Conn
	cfg    Config
	handle Handler
	ready  *service.Readiness
	log    *slog.Logger
	places chan struct{}
}

// New returns an intake. It is ready, in the given Readiness, while it can
// take in messages.
func New(nc *natskit.Conn, cfg Config, handle Handler, ready *service.Readiness, log *slog.Logger) *Intake {
	return &Intake{nc: nc, cfg: cfg, handle: handle, ready: ready, log: log, places: make(chan struct{}, cfg.Places)}
}

// Run takes messages in until the context ends, then waits for the handlers.
// It errs only if the stream is unfit or reaches back less far than asked;
// everything else is tried again.
func (in *Intake) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	var handlers sync.WaitGroup
	defer func() {
		hurry := time.AfterFunc(in.cfg.Grace, stop)
		handlers.Wait()
		hurry.Stop()
		stop()
	}()
	dispatch := func(msg jetstream.Msg) {
		handlers.Go(func() {
			defer func() { <-in.places }()
			in.handle(work, msg)
		})
	}
	return in.keepPulling(ctx, dispatch)
}

// keepPulling pulls until the context ends, beginning anew after each fault.
func (in *Intake) keepPulling(ctx context.Context, dispatch func(jetstream.Msg)) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = retryMin, retryMax
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := in.pull(ctx, dispatch, wait.Reset)
		if errors.Is(err, natskit.ErrStreamUnfit) || errors.Is(err, ErrReach) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, next time.Duration) {
		in.log.WarnContext(ctx, "events can't be read, trying again", "error", err, "after", next)
	}))
	if ended(ctx) {
		return nil
	}
	return err
}

// pull opens the consumer and pulls from it until the context ends or
// something breaks. working is called whenever all is well.
func (in *Intake) pull(ctx context.Context, dispatch func(jetstream.Msg), working func()) error {
	msgs, err := in.open(ctx)
	if err != nil {
		in.ready.Set(err)
		return err
	}
	defer handBack(msgs, in.cfg.Returned)
	in.ready.Set(nil)
	for {
		select {
		case in.places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		msg, err := in.next(ctx, msgs, working)
		if err != nil {
			<-in.places
			return in.broken(ctx, err)
		}
		dispatch(msg)
	}
}

func ended(ctx context.Context) bool { return ctx.Err() != nil }

// broken is what ends pulling: nothing when the context has ended.
func (in *Intake) broken(ctx context.Context, err error) error {
	if ended(ctx) {
		return nil
	}
	err = fmt.Errorf("pull events: %w", err)
	in.ready.Set(err)
	return err
}
