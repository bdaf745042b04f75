package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/traffic"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// recordedSessions are folders with recorded sessions that may be beside the repository.
var recordedSessions = []string{"../../shared/sessions", "../../shared/trajectories"}

const (
	// generated stands for generated sessions in the place of a file.
	generated         = "generated"
	generatedSessions = 100
	// longSessions is the number of long sessions.
	longSessions = 3
)

// Names of contenders.
const (
	nameProxy  = "bare httputil.ReverseProxy"
	nameUnloop = "Unloop, default policy"
)

// Names of figures that a replay counts.
const (
	figureUnjudged   = "unjudged"
	figureUncompared = "uncompared"
	figureStopped    = "stopped"
)

// unjudgedFigure is the share of requests that were forwarded without a decision.
var unjudgedFigure = measure.Figure{Name: "unjudged %", Format: "%.2f", Of: figureUnjudged, Share: true}

// processorFigure is the processor time of all processes of a contender.
var processorFigure = measure.Figure{Name: "processor ms per request", Format: "%.3f", Of: figureProcessor}.Times()

// sessionFigures are the rows of a table of sessions.
var sessionFigures = []measure.Figure{
	measure.P50, measure.P99, measure.Rate,
	processorFigure,
	measure.Figure{Name: "allocations per request", Format: "%.0f", Of: figureAllocations}.Times(),
	measure.Figure{Name: "KB allocated per request", Format: "%.1f", Of: figureAllocated}.Times(),
	unjudgedFigure,
	{Name: "texts not compared %", Format: "%.2f", Of: figureUncompared, Share: true},
	{Name: "refused %", Format: "%.2f", Of: figureStopped, Share: true},
}

// exactPolicies are the default policy without semantic detection.
const exactPolicies = `bundle_version: 1
policies:
  - id: exact
    spec:
      selector: {pathPrefix: /v1/, methods: [POST]}
      prompt: {max_hits: 5, window_seconds: 60, cooldown_seconds: 30}
      tool: {warn_threshold: 3, block_threshold: 5}
      cycle: {}
`

// exact returns Unloop with exact detectors alone.
func (b *bench) exact() (unloop, error) {
	file := filepath.Join(b.dir, "exact.yaml")
	return unloop{name: "Unloop, exact detectors", flags: []string{"--policies", file}}, os.WriteFile(file, []byte(exactPolicies), 0o600)
}

// sessions compares agent sessions through Unloop with the same through a bare proxy.
func (b *bench) sessions(ctx context.Context) error {
	sessions, err := b.replayed()
	if err != nil {
		return err
	}
	return b.compareUnloop(ctx, sessions, b.plan.Calls)
}

// long does the same with sessions that have long histories.
func (b *bench) long(ctx context.Context) error {
	sessions, err := traffic.Long(longSessions, 1)
	if err != nil {
		return err
	}
	return b.compareUnloop(ctx, sessions, max(1, b.plan.Calls/20))
}

// compareUnloop compares Unloop with a bare proxy, with the given calls per sample.
func (b *bench) compareUnloop(ctx context.Context, sessions []traffic.Session, calls int) error {
	exact, err := b.exact()
	if err != nil {
		return err
	}
	_, all, err := b.lineUp(ctx, exact, unloop{name: nameUnloop})
	if err != nil {
		return err
	}
	return b.compareSessions(ctx, sessions, calls, all, sessionFigures)
}

// compareSessions replays sessions through all instances. The first is the bare proxy.
func (b *bench) compareSessions(ctx context.Context, sessions []traffic.Session, calls int, all []*instance, figures []measure.Figure) error {
	var contenders []measure.Contender
	written := []string{"bytes (writes) to JetStream per request"}
	for _, in := range all {
		c := b.replays(sessions, in, chatPath)
		writes, err := writesOf(ctx, in, c, min(mostWritesCalls, calls))
		if err != nil {
			return err
		}
		contenders, written = append(contenders, c), append(written, writes)
	}
	plan := b.plan
	plan.Calls = calls
	res, err := measure.Compare(ctx, plan, contenders...)
	if err != nil {
		return err
	}
	b.show(res, nameProxy, figures, "sessions, all of Unloop in one process: "+traffic.Shape(sessions), written, resident(all))
	return nil
}

// chunkGap is the time between two chunks of slow answers.
const chunkGap = 8 * time.Millisecond

// streamed compares sessions with streamed answers, fast and slow ones.
func (b *bench) streamed(ctx context.Context) error {
	sessions, err := b.replayed()
	if err != nil {
		return err
	}
	_, all, err := b.lineUp(ctx, unloop{name: nameUnloop})
	if err != nil {
		return err
	}
	for _, chunks := range b.chunks {
		fast := measure.Plan{Rounds: b.plan.Rounds, Calls: max(1, b.plan.Calls/(1+chunks/20)), Levels: b.plan.Levels}
		slow := measure.Plan{Rounds: b.plan.Rounds, Calls: 1, Levels: []int{slices.Max(b.plan.Levels)}} // one for each in flight
		for _, at := range []struct {
			gap  time.Duration
			plan measure.Plan
		}{{0, fast}, {chunkGap, slow}} {
			var contenders []measure.Contender
			for _, in := range all {
				contenders = append(contenders, b.replays(sessions, in, streamPath(chunks, at.gap)))
			}
			res, err := measure.Compare(ctx, at.plan, contenders...)
			if err != nil {
				return err
			}
			b.show(res, nameProxy, sessionFigures, fmt.Sprintf("sessions, answers of %d chunks, one every %s", chunks, at.gap))
		}
	}
	return nil
}

// replayed returns the sessions to replay.
func (b *bench) replayed() ([]traffic.Session, error) {
	paths := b.recorded
	if len(paths) == 0 {
		paths = slices.DeleteFunc(slices.Clone(recordedSessions), func(path string) bool {
			_, err := os.Stat(path)
			return err != nil
		})
	}
	if len(paths) == 0 || paths[0] == generated {
		return traffic.Generate(generatedSessions, 1)
	}
	return traffic.Read(paths...)
}

// replay sends sessions to an instance, turn after turn. It counts requests that were forwarded
// without a decision (unjudged) or without a comparison of their texts, and those that were
// refused as loops.
type replay struct {
	*bench
	sessions []traffic.Session
	in       *instance
	// next is the next session to take.
	next                          atomic.Int64
	unjudged, uncompared, stopped atomic.Int64
}

// replays returns a contender that replays sessions, the same ones in each sample of a round.
func (b *bench) replays(sessions []traffic.Session, in *instance, path string) measure.Contender {
	r := &replay{bench: b, sessions: sessions, in: in}
	return measure.Contender{Name: in.name, Meter: r.read, Caller: func(round, caller int) (measure.Op, func()) {
		const step = 37 // so that rounds begin with different sessions
		if caller == 0 {
			r.next.Store(int64(round * step))
		}
		a := &agent{replay: r, conn: dial(in, path), streams: path != chatPath}
		return a.step, a.conn.close
	}}
}

func (r *replay) read(ctx context.Context) (measure.Reading, error) {
	out, err := r.in.read(ctx)
	if err != nil {
		return nil, err
	}
	out[figureUnjudged], out[figureUncompared], out[figureStopped] = float64(r.unjudged.Load()), float64(r.uncompared.Load()), float64(r.stopped.Load())
	return out, nil
}

func (r *replay) count(got reply) error {
	switch got.status {
	case http.StatusOK:
		switch got.degraded {
		case "":
		case "semantic":
			r.uncompared.Add(1)
		default:
			r.unjudged.Add(1)
		}
	case http.StatusTooManyRequests, http.StatusBadRequest: // 400 if the loop came back
		r.stopped.Add(1)
	default:
		return fmt.Errorf("%w: status %d", errAnswer, got.status)
	}
	return nil
}

// agent sends the turns of one session after another on its connection.
type agent struct {
	*replay
	conn    *client
	streams bool
	left    []traffic.Turn
	mark    uint32
	key     string
	body    []byte
}

// step sends the next request of the session, or the first one of the next session.
func (a *agent) step(context.Context) error {
	if len(a.left) == 0 {
		a.left = a.sessions[int(a.next.Add(1)-1)%len(a.sessions)]
		a.mark = a.marks.Add(1)
		a.key = fmt.Sprintf("sk-bench-%08x", a.mark)
	}
	a.body = a.left[0].Append(a.body[:0], a.mark)
	a.left = a.left[1:]
	body := a.body
	if a.streams {
		body = streaming(body)
	}
	got, err := a.conn.post(a.key, body, nil)
	if err != nil {
		return err
	}
	if got.status != http.StatusOK {
		a.left = nil
	}
	return a.count(got)
}

const (
	// writesLevel and mostWritesCalls are the requests in flight, and the most requests, while
	// writes are counted. That is not done in samples, because a subscriber costs time.
	writesLevel     = 8
	mostWritesCalls = 1000
)

// writesOf drives a contender and returns what is written to its streams per request: the
// bytes of subjects, headers and data, and the number of messages.
func writesOf(ctx context.Context, in *instance, c measure.Contender, calls int) (string, error) {
	if in.nats == "" {
		return "–", nil
	}
	conn, err := natskit.Connect(in.nats, "bench", logErrors())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	var bytes, messages atomic.Int64
	count := func(m *nats.Msg) {
		bytes.Add(int64(m.Size() - len(m.Reply)))
		messages.Add(1)
	}
	var faults []error
	streams := conn.JetStream().ListStreams(ctx)
	for info := range streams.Info() {
		for _, subject := range info.Config.Subjects {
			_, err := conn.NATS().Subscribe(subject, count)
			faults = append(faults, err)
		}
	}
	if err := errors.Join(append(faults, streams.Err(), conn.NATS().FlushTimeout(patience))...); err != nil {
		return "", fmt.Errorf("count writes: %w", err)
	}
	if _, err := measure.Compare(ctx, measure.Plan{Calls: calls, Levels: []int{writesLevel}}, c); err != nil {
		return "", err
	}
	if err := conn.NATS().FlushTimeout(patience); err != nil {
		return "", fmt.Errorf("count writes: %w", err)
	}
	return fmt.Sprintf("%.0f (%.2f)", float64(bytes.Load())/float64(calls), float64(messages.Load())/float64(calls)), nil
}
