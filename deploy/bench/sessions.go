package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/traffic"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// recordedSessions are where recorded sessions may be, beside the repository.
var recordedSessions = []string{"../shared/sessions", "../shared/trajectories"}

// generated is the name of sessions that are generated, and generatedSessions their
// number.
const (
	generated         = "generated"
	generatedSessions = 100
)

// Names of the contenders.
const (
	nameProxy    = "bare httputil.ReverseProxy"
	nameExact    = "Unloop, exact detectors"
	nameUnloop   = "Unloop, default policy"
	nameTogether = "Unloop, one process"
	nameApart    = "Unloop, four processes"
)

// Names of figures that are counted here.
const (
	figureUnjudged   = "unjudged"
	figureUncompared = "uncompared"
	figureStopped    = "stopped"
)

// sessionFigures are the rows of a table of sessions.
var sessionFigures = []measure.Figure{
	measure.P50, measure.P99, measure.Rate,
	measure.Read("processor ms per request", "%.3f", figureProcessor, 1, measure.Times),
	measure.Read("allocations per request", "%.0f", figureAllocations, 1, measure.Times),
	measure.Read("KB allocated per request", "%.1f", figureAllocated, 1e-3, measure.Times),
	measure.Share("unjudged %", figureUnjudged),
	measure.Share("texts not compared %", figureUncompared),
	measure.Share("refused %", figureStopped),
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

// stage is where sessions are replayed.
type stage struct {
	*bench
	sessions []traffic.Session
	// calls is the number of requests of a sample.
	calls int
	// chunks is the number of chunks in which each answer is streamed, gap the time between
	// two; 0 for answers in one piece.
	chunks     int
	gap        time.Duration
	upstream   string
	contenders []measure.Contender
	// written is what the contenders write to JetStream for each request.
	written []string
}

// newStage starts the upstream and a bare proxy.
func (b *bench) newStage(ctx context.Context, sessions func() ([]traffic.Session, error)) (*stage, error) {
	s := &stage{bench: b, calls: b.calls, written: []string{"bytes (writes) to JetStream per request", "–"}}
	var err error
	if s.sessions, err = sessions(); err != nil {
		return nil, err
	}
	upstream, err := startRole(ctx, &b.group, originRole)
	if err != nil {
		return nil, err
	}
	s.upstream = upstream.url
	proxy, err := startRole(ctx, &b.group, proxyRole, s.upstream)
	if err != nil {
		return nil, err
	}
	s.contenders = append(s.contenders, s.contender(nameProxy, proxy))
	return s, nil
}

// add adds a contender and counts its writes to JetStream.
func (s *stage) add(ctx context.Context, name string, in *instance) error {
	c := s.contender(name, in)
	written, err := s.writesOf(ctx, in, c)
	s.contenders, s.written = append(s.contenders, c), append(s.written, written)
	return err
}

// compare measures the contenders and prints a table.
func (s *stage) compare(ctx context.Context, figures []measure.Figure, title string) error {
	plan := s.plan
	plan.Calls = s.calls
	res, err := measure.Compare(ctx, plan, s.contenders...)
	if err != nil {
		return err
	}
	t := res.Table(nameProxy, figures)
	t.Add(s.written...)
	s.print(t, "%s: %s", title, traffic.ShapeOf(s.sessions))
	s.printAgainst(res, figures)
	return nil
}

// sessions compares sessions of agents through Unloop with the same through a bare proxy.
func (b *bench) sessions(ctx context.Context) error {
	s, err := b.newStage(ctx, b.replayed)
	if err != nil {
		return err
	}
	return s.compareUnloop(ctx)
}

// longSessions is the number of long sessions.
const longSessions = 3

// long is sessions for those whose histories are long.
func (b *bench) long(ctx context.Context) error {
	s, err := b.newStage(ctx, func() ([]traffic.Session, error) { return traffic.Long(longSessions, 1) })
	if err != nil {
		return err
	}
	s.calls = max(1, b.calls/20)
	return s.compareUnloop(ctx)
}

// compareUnloop compares Unloop with a bare proxy.
func (s *stage) compareUnloop(ctx context.Context) error {
	b := s.bench
	for _, rival := range b.rivals() {
		for _, kind := range []struct{ name, policies string }{{nameExact, exactPolicies}, {nameUnloop, ""}} {
			in, err := b.startUp(ctx, &b.group, unloop{binary: rival.binary, policies: kind.policies}, s.upstream)
			if err != nil {
				return err
			}
			if err := s.add(ctx, kind.name+rival.suffix, in); err != nil {
				return err
			}
		}
	}
	return s.compare(ctx, sessionFigures, "sessions, all of Unloop in one process")
}

// chunkGap is the time between two chunks of answers that do not come at once.
const chunkGap = 8 * time.Millisecond

// streamed compares sessions whose answers are streamed, at once and slowly.
func (b *bench) streamed(ctx context.Context) error {
	s, err := b.newStage(ctx, b.replayed)
	if err != nil {
		return err
	}
	for _, rival := range b.rivals() {
		in, err := b.startUp(ctx, &b.group, unloop{binary: rival.binary}, s.upstream)
		if err != nil {
			return err
		}
		s.contenders = append(s.contenders, s.contender(nameUnloop+rival.suffix, in))
	}
	for _, s.chunks = range b.chunks {
		plan := measure.Plan{Rounds: b.plan.Rounds, Calls: max(1, b.calls/(1+s.chunks/20)), Levels: b.plan.Levels}
		slow := plan
		slow.Calls, slow.Levels = 1, []int{slices.Max(plan.Levels)} // one for each in flight
		for _, at := range []struct {
			gap  time.Duration
			plan measure.Plan
		}{{0, plan}, {chunkGap, slow}} {
			s.gap = at.gap
			res, err := measure.Compare(ctx, at.plan, s.contenders...)
			if err != nil {
				return err
			}
			b.printResults(res, nameProxy, sessionFigures, "sessions, answers of %d chunks, one every %s", s.chunks, s.gap)
		}
	}
	return nil
}

// apart compares the default policy in one process with the same in four: gateway, NATS
// server, detector and embedding worker.
func (b *bench) apart(ctx context.Context) error {
	s, err := b.newStage(ctx, b.replayed)
	if err != nil {
		return err
	}
	for _, rival := range b.rivals() {
		u := unloop{binary: rival.binary}
		together, err := b.startUp(ctx, &b.group, u, s.upstream)
		if err != nil {
			return err
		}
		apart, err := b.startApart(ctx, &b.group, u, s.upstream)
		if err != nil {
			return err
		}
		if err := errors.Join(s.add(ctx, nameTogether+rival.suffix, together), s.add(ctx, nameApart+rival.suffix, apart)); err != nil {
			return err
		}
	}
	figures := sessionFigures
	for _, p := range []string{"gateway", "nats", "detector", "embedworker"} {
		figures = append(figures, measure.Read("processor ms per request of "+p, "%.3f", figureProcessor+p, 1, nil))
	}
	return s.compare(ctx, figures, "sessions, default policy, one process against four")
}

// replayed are the sessions that parts replay.
func (b *bench) replayed() ([]traffic.Session, error) {
	paths := b.recorded
	if len(paths) == 0 {
		for _, path := range recordedSessions {
			if _, err := os.Stat(inRepository(path)); err == nil {
				paths = append(paths, path)
			}
		}
	}
	if len(paths) == 0 || len(paths) == 1 && paths[0] == generated {
		return traffic.Generate(generatedSessions, 1)
	}
	files := make([]string, len(paths))
	for i, path := range paths {
		files[i] = inRepository(path)
	}
	return traffic.Read(files...)
}

// replay sends sessions to an instance, turn after turn within each. It counts requests
// that were forwarded without a decision or without the comparison of their texts, and
// that were refused as loops.
type replay struct {
	*stage
	in *instance
	// next is the session that a caller without one takes.
	next                          atomic.Int64
	unjudged, uncompared, stopped atomic.Int64
}

// contender replays sessions, in each sample of a round the same ones.
func (s *stage) contender(name string, in *instance) measure.Contender {
	r := &replay{stage: s, in: in}
	return measure.Contender{Name: name, Meter: r.read, Caller: func(round, caller int) (measure.Op, func(), error) {
		const step = 37 // so that rounds begin with other sessions
		if caller == 0 {
			r.next.Store(int64(round * step))
		}
		conn, err := s.dial(in)
		if err != nil {
			return nil, nil, err
		}
		a := &agent{replay: r, conn: conn}
		return a.step, conn.close, nil
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

var errStatus = errors.New("unexpected status")

func (r *replay) count(got reply) error {
	switch got.status {
	case http.StatusOK:
		if got.unjudged {
			r.unjudged.Add(1)
		}
		if got.uncompared {
			r.uncompared.Add(1)
		}
	case http.StatusTooManyRequests, http.StatusBadRequest: // the latter if the loop came back
		r.stopped.Add(1)
	default:
		return fmt.Errorf("%w %d", errStatus, got.status)
	}
	return nil
}

// agent is in the middle of a session, on a connection.
type agent struct {
	*replay
	conn *client
	left []traffic.Turn
	mark uint32
	key  string
	body []byte
}

// step sends the next request of the session, or the first one of the next session.
func (a *agent) step(ctx context.Context) error {
	if len(a.left) == 0 {
		a.left = a.sessions[int(a.next.Add(1)-1)%len(a.sessions)].Turns
		a.mark = a.replays.Add(1)
		a.key = fmt.Sprintf("sk-bench-%08x", a.mark)
	}
	a.body = a.left[0].Append(a.body[:0], a.mark)
	a.left = a.left[1:]
	got, err := a.ask(ctx)
	if err != nil {
		return err
	}
	if got.status != http.StatusOK {
		a.left = nil
	}
	return a.count(got)
}

// ask sends the current request.
func (a *agent) ask(ctx context.Context) (reply, error) {
	if a.chunks == 0 {
		return a.conn.post(ctx, a.key, a.body)
	}
	return a.conn.stream(ctx, a.key, streaming(a.body), func([]byte) {})
}

// dial returns a connection whose requests are answered as the stage's are.
func (s *stage) dial(in *instance) (*client, error) {
	if s.chunks == 0 {
		return dial(in.url)
	}
	return dialStream(in, s.chunks, s.gap)
}

const (
	// writesLevel and mostWritesCalls are the requests in flight and in all while what is
	// written is counted, apart from the samples: whoever listens costs time.
	writesLevel     = 8
	mostWritesCalls = 1000
)

// writesOf drives a contender and returns what its streams are sent for each request: the
// bytes of subjects, headers and data, and the messages.
func (s *stage) writesOf(ctx context.Context, in *instance, c measure.Contender) (string, error) {
	conn, err := natskit.Connect(in.nats, "bench", logErrors())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	var mu sync.Mutex
	var bytes, messages float64
	count := func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		bytes, messages = bytes+float64(m.Size()-len(m.Reply)), messages+1
	}
	streams := conn.JetStream().ListStreams(ctx)
	for info := range streams.Info() {
		for _, subject := range info.Config.Subjects {
			if _, err := conn.NATS().Subscribe(subject, count); err != nil {
				return "", fmt.Errorf("count writes: %w", err)
			}
		}
	}
	plan := measure.Plan{Calls: min(mostWritesCalls, s.calls), Levels: []int{writesLevel}}
	if err := errors.Join(streams.Err(), conn.NATS().FlushTimeout(patience)); err != nil {
		return "", fmt.Errorf("count writes: %w", err)
	}
	if _, err := measure.Compare(ctx, plan, c); err != nil {
		return "", err
	}
	if err := conn.NATS().FlushTimeout(patience); err != nil {
		return "", fmt.Errorf("count writes: %w", err)
	}
	mu.Lock()
	defer mu.Unlock()
	return fmt.Sprintf("%.0f (%.2f)", bytes/float64(plan.Calls), messages/float64(plan.Calls)), nil
}
