package detection

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/unloop/unloop/deploy/replay"
	"github.com/unloop/unloop/deploy/replay/logs"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/schemas/checkpb"
)

// scene is a script of agents and people in virtual time. Its requests are sent in
// each wire format.
type scene struct {
	requests []sent
	gateways int // that the requests go to in turn; 0 means 1
}

// sent is a request of a scene.
type sent struct {
	at, done time.Duration // since the scene began
	by       *agent
	conv     []message // the conversation at that time
	status   int
}

// message is a message of a conversation, in no wire format.
type message struct {
	role    string // system, user or assistant
	text    string
	media   []media
	calls   []call
	results []result // of the calls before, in a message of the user
}

// call is a tool call, result its result.
type call struct{ tool, args string }

type result struct {
	text  string
	media []media
}

// agent is one conversation of a scene.
type agent struct {
	scene    *scene
	key      string // its API key
	session  string // the session that it names, or ""
	model    string
	at       time.Duration // its time since the scene began
	think    time.Duration // how long the model takes to answer
	conv     []message
	finished int // messages that a new conversation keeps: those of the system
}

// agent returns an agent that begins at a time and takes four seconds for an answer.
func (s *scene) agent(at time.Duration) *agent {
	return &agent{scene: s, key: "key", at: at, think: 4 * time.Second, model: "model"}
}

// named returns the agent, with a session that it names in X-Session-ID.
func (a *agent) named(session string) *agent {
	a.session = session
	return a
}

// add adds messages to the conversation.
func (a *agent) add(messages ...message) *agent {
	a.conv = append(a.conv, messages...)
	return a
}

// system begins the conversation.
func (a *agent) system(text string) *agent {
	a.finished = len(a.conv) + 1
	return a.add(message{role: "system", text: text})
}

// again begins a new conversation behind the same system message.
func (a *agent) again() *agent {
	a.conv = slices.Clone(a.conv[:a.finished])
	return a
}

// user adds a message of the user.
func (a *agent) user(text string, parts ...media) *agent {
	return a.add(message{role: "user", text: text, media: parts})
}

// wait lets time pass.
func (a *agent) wait(d time.Duration) *agent {
	a.at += d
	return a
}

// ask sends the conversation and waits for the answer, which is not kept.
func (a *agent) ask() *agent { return a.status(200) }

// status is ask with the status of the answer.
func (a *agent) status(code int) *agent {
	a.scene.requests = append(a.scene.requests, sent{a.at, a.at + a.think, a, slices.Clone(a.conv), code})
	a.at += a.think
	return a
}

// answer sends the conversation; the model answers without a call.
func (a *agent) answer(text string) *agent {
	return a.ask().add(message{role: "assistant", text: text})
}

// call sends the conversation; the model calls a tool, which takes a time and brings a result.
func (a *agent) call(tool, args, text string, took time.Duration, parts ...media) *agent {
	return a.calls([]call{{tool, args}}, []result{{text, parts}}, took)
}

// step is call for a client that puts all calls since the last message of the user into
// one message, and all results into the next.
func (a *agent) step(tool, args, text string, took time.Duration) *agent {
	n := len(a.conv)
	if n < 2 || a.conv[n-1].results == nil {
		return a.call(tool, args, text, took)
	}
	a.ask().wait(took)
	// What was sent keeps its own calls and results.
	a.conv[n-2].calls = slices.Concat(a.conv[n-2].calls, []call{{tool, args}})
	a.conv[n-1].results = slices.Concat(a.conv[n-1].results, []result{{text: text}})
	return a
}

// calls is call with parallel calls.
func (a *agent) calls(calls []call, results []result, took time.Duration) *agent {
	return a.ask().wait(took).add(message{role: "assistant", calls: calls}, message{role: "user", results: results})
}

// play replays the scene in a wire format, and returns what the default policy did.
func (s *scene) play(t *testing.T, wire wire) *played {
	t.Helper()
	embedder := embedworker.DefaultConfig()
	embedder.Embedder = "lexical"
	out, number := &played{requests: len(s.requests)}, 0
	var now time.Time
	twin, err := newTwin(t.Context(), embedder, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	twin.embeddings = &out.Embeddings
	run, err := replay.New(t.Context(), replay.Config{
		Embedworker: embedder, Gateways: s.gateways, Worker: twin.beside, Decided: func(d *checkpb.Decision) { out.add(number, d) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Close() })
	for _, q := range s.timeline(t, wire) {
		number, now = q.Line-1, q.Time
		if err := run.Request(t.Context(), "scene", &q); err != nil {
			t.Fatalf("request %d: %v", number, err)
		}
	}
	if out.Differing > 0 {
		t.Errorf("%d comparisons have other results than if every exchange is embedded", out.Differing)
	}
	return out
}

// timeline returns the requests and the ends of their answers in the order of their times.
func (s *scene) timeline(t *testing.T, wire wire) []logs.Request {
	t.Helper()
	begin := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	slices.SortStableFunc(s.requests, func(a, b sent) int { return cmp.Compare(a.at, b.at) })
	var out []logs.Request
	for i, r := range s.requests {
		body, err := json.Marshal(wire.body(r.by.model, r.conv))
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint("request-", i)
		out = append(out,
			logs.Request{
				Source: logs.Session, Line: i + 1, Time: begin.Add(r.at), ID: id, Method: "POST", Path: wire.path,
				Caller: r.by.key, Session: r.by.session, Model: r.by.model, Body: body,
			},
			logs.Request{
				Source: logs.Session, Line: i + 1, Time: begin.Add(r.done),
				Answer: &logs.Answer{To: id, Outcome: logs.Outcome{Status: r.status}},
			})
	}
	slices.SortStableFunc(out, func(a, b logs.Request) int { return a.Time.Compare(b.Time) })
	return out
}

// played is what the default policy did with the requests of a scene.
type played struct {
	requests int
	Result
}

// stops returns how many requests did not reach their upstream, hints how many were hinted.
func (p *played) stops() (n int) {
	for _, a := range p.Actions {
		n += count(a.Action >= checkpb.Action_ACTION_REJECT)
	}
	return n
}

func (p *played) hints() (n int) {
	for _, a := range p.Actions {
		n += count(a.Action == checkpb.Action_ACTION_HINT)
	}
	return n
}

// String returns a line for each request that was not just allowed, 20 at most.
func (p *played) String() string {
	out := fmt.Sprintf("%d requests, %d hinted, %d stopped", p.requests, p.hints(), p.stops())
	for i, a := range p.Actions {
		if i == 20 {
			return out + "\n    …"
		}
		out += fmt.Sprintf("\n    request %d %s %v %s", a.Request, a.Action.Label(), a.Detectors, a.Why)
	}
	return out
}
