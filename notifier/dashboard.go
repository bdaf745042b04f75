package notifier

import (
	"context"
	"net/http"
	"time"

	"github.com/unloop/unloop/notifier/internal/api"
	"github.com/unloop/unloop/notifier/internal/board"
	"github.com/unloop/unloop/notifier/internal/page"
	"github.com/unloop/unloop/notifier/internal/watch"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/kit/service"
	"github.com/unloop/unloop/schemas/silence"
)

// dashboard is the page of loops and its API. The nil dashboard serves nothing.
type dashboard struct {
	board    *board.Board
	watcher  *watch.Watcher
	operator operations
	// done is closed when the dashboard stops.
	done chan struct{}
}

func newDashboard(deps service.Deps) *dashboard {
	b := board.New()
	return &dashboard{
		board: b, watcher: watch.New(deps.NATS, deps.Layout, b, deps.Log), operator: operations{deps.NATS}, done: make(chan struct{}),
	}
}

// run keeps the dashboard in step until the context ends. Streams of clients end then.
func (d *dashboard) run(ctx context.Context) error {
	if d == nil {
		return nil
	}
	defer close(d.done)
	return d.watcher.Run(ctx)
}

// Site returns the handler of the page and its API on the admin port. refuse returns why
// clients may change nothing, or "" if they may.
func (n *Notifier) Site(refuse func() string) http.Handler {
	d := n.dashboard
	if d == nil {
		return http.NotFoundHandler()
	}
	mux := http.NewServeMux()
	mux.Handle(api.Prefix, api.New(d.board, d.watcher, d.operator, refuse, time.Now, d.done).Handler())
	mux.Handle("/", page.Handler())
	return mux
}

// operations carries out over NATS what operators ask for.
type operations struct{ nc *natskit.Conn }

func (o operations) Release(ctx context.Context, loopID string) (int, error) {
	return operator.Release(ctx, o.nc.NATS(), loopID)
}

func (o operations) AddSilence(ctx context.Context, s silence.Silence) (silence.Silence, error) {
	return operator.AddSilence(ctx, o.nc.JetStream(), s)
}

func (o operations) ExpireSilence(ctx context.Context, id string) (silence.Silence, error) {
	return operator.ExpireSilence(ctx, o.nc.JetStream(), id, time.Now())
}
