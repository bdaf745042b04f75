package pull

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/natskit"
)

// Bounds of the backoff after a fault.
const (
	retryMin = 50 * time.Millisecond
	retryMax = 5 * time.Second
)

// Config configures an Intake.
type Config struct {
	// Endpoint names the consumer.
	Endpoint string
	// Since is how old the first events of a new consumer may be; see All.
	Since time.Duration
	// Layout configures streams that have to be created.
	Layout natskit.Layout
	// State gets nil when events can be read, else the reason why not.
	State func(error)
	// Missed gets the number of events that the stream dropped before they were read.
	Missed func(uint64)
}

// All is the value of Since for all stored events.
const All time.Duration = -1

// Handler handles one message and acknowledges it.
type Handler func(ctx context.Context, msg jetstream.Msg)

// Intake reads the events of one endpoint, which it shares with other processes.
type Intake struct {
	nc     *natskit.Conn
	cfg    Config
	handle Handler
	log    *slog.Logger
}

// New returns an intake.
func New(nc *natskit.Conn, cfg Config, handle Handler, log *slog.Logger) *Intake {
	return &Intake{nc: nc, cfg: cfg, handle: handle, log: log}
}

// Run reads messages until the context ends. It fails only if the stream has an unusable
// configuration, and retries after other faults.
func (in *Intake) Run(ctx context.Context) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = retryMin, retryMax
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := in.pull(ctx, wait.Reset)
		if errors.Is(err, natskit.ErrStreamUnfit) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, next time.Duration) {
		in.log.WarnContext(ctx, "events can't be read, retrying", "endpoint", in.cfg.Endpoint, "error", err, "after", next)
	}))
	if ended(ctx) {
		return nil
	}
	return err
}

// pull opens the consumer and pulls from it until the context ends or a fault occurs. It calls
// working whenever events can be read.
func (in *Intake) pull(ctx context.Context, working func()) error {
	msgs, err := in.open(ctx)
	if err != nil {
		in.cfg.State(err)
		return err
	}
	defer handBack(msgs)
	in.cfg.State(nil)
	for {
		msg, err := in.next(ctx, msgs, working)
		if err != nil {
			return in.broken(ctx, err)
		}
		in.handle(ctx, msg)
	}
}

func ended(ctx context.Context) bool { return ctx.Err() != nil }

// broken returns the error that ended pulling; nil if the context has ended.
func (in *Intake) broken(ctx context.Context, err error) error {
	if ended(ctx) {
		return nil
	}
	err = fmt.Errorf("pull events: %w", err)
	in.cfg.State(err)
	return err
}
