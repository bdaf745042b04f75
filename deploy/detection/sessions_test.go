// Package detection measures the default policy on labelled sessions of agents: which
// stuck sessions it finds and when, and which honest sessions it hints or stops.
//
// Each session is replayed request by request in virtual time, without a network. The
// tests check the figures that the documentation promises.
package detection

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/unloop/unloop/deploy/replay"
	"github.com/unloop/unloop/deploy/replay/logs"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/schemas/checkpb"
)

// Gap is the virtual time between two requests of a session.
const Gap = 5 * time.Second

// apart is the virtual time between two sessions that are replayed one after the
// other. It is longer than any window of the default policy.
const apart = 3 * time.Hour

// Way is a way to replay the sessions.
type Way struct {
	Name string
	// Named sends each session's name in X-Session-ID.
	Named bool
	// AtOnce replays all sessions at the same time and under one key; else they
	// run one after the other, each under a key of its own.
	AtOnce bool
}

// Ways returns the ways in which sessions are measured.
func Ways() []Way {
	return []Way{
		{Name: "without a session header"},
		{Name: "with X-Session-ID", Named: true},
		{Name: "all at once under one key", AtOnce: true},
	}
}

// Session is a labelled session in OpenAI's messages. Request k consists of the
// messages before the k-th message of the assistant.
type Session struct {
	Source string `json:"source"`
	Model  string `json:"model"`
	// ActsBy is "tools" for tool calls on the wire, "text" for actions in text.
	ActsBy string `json:"acts_by"`
	// Label is "stuck" or "honest".
	Label string `json:"label"`
	// StaleFrom is the first of at least four rounds in a row, counted from 0, that
	// bring nothing new. It is nil for honest sessions.
	StaleFrom *int              `json:"stale_from"`
	Messages  []json.RawMessage `json:"messages"`
}

// Stuck reports whether the session is labelled as a loop.
func (s *Session) Stuck() bool { return s.StaleFrom != nil }

// deadline returns the request, from 0, that contains the fourth round without news; -1
// for honest sessions.
func (s *Session) deadline() int {
	if s.StaleFrom == nil {
		return -1
	}
	return *s.StaleFrom + 4
}

// Read returns the sessions of a file with a session on each line.
func Read(file string) ([]Session, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read labelled sessions: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	var out []Session
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, logs.Limit)
	for n := 1; lines.Scan(); n++ {
		var s Session
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, fmt.Errorf("read %s, line %d: %w", file, n, err)
		}
		out = append(out, s)
	}
	return out, lines.Err()
}

// requests returns the bodies of the session's requests.
func (s *Session) requests() ([][]byte, error) {
	var out [][]byte
	for i, m := range s.Messages {
		var message struct{ Role string }
		if err := json.Unmarshal(m, &message); err != nil {
			return nil, fmt.Errorf("read message %d of %s: %w", i, s.Source, err)
		}
		if message.Role != "assistant" || i == 0 {
			continue
		}
		body, err := json.Marshal(map[string]any{"model": cmp.Or(s.Model, "model"), "messages": s.Messages[:i]})
		if err != nil {
			return nil, fmt.Errorf("write request %d of %s: %w", len(out), s.Source, err)
		}
		out = append(out, body)
	}
	return out, nil
}

// timed is one request of one session at its virtual time.
type timed struct {
	at       time.Time
	session  int
	number   int
	body     []byte
	sequence int
}

// schedule returns the requests of all sessions in the order of their times.
func schedule(sessions []Session, w Way) ([]timed, error) {
	var all []timed
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range sessions {
		bodies, err := sessions[i].requests()
		if err != nil {
			return nil, err
		}
		begin := at
		if w.AtOnce {
			begin = at.Add(time.Duration(i) * time.Millisecond)
		}
		for n, body := range bodies {
			all = append(all, timed{begin.Add(time.Duration(n) * Gap), i, n, body, len(all)})
		}
		if !w.AtOnce {
			at = at.Add(time.Duration(len(bodies))*Gap + apart)
		}
	}
	slices.SortFunc(all, func(a, b timed) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.sequence, b.sequence))
	})
	return all, nil
}

// Replay evaluates the sessions by the default policy with the lexical embedder, and
// returns their results in the same order.
func Replay(ctx context.Context, sessions []Session, w Way) ([]Result, error) {
	all, err := schedule(sessions, w)
	if err != nil {
		return nil, err
	}
	out := make([]Result, len(sessions))
	for i := range out {
		out[i].Session = &sessions[i]
	}
	var now *timed
	embedder := embedworker.DefaultConfig()
	embedder.Embedder = "lexical"
	twin, err := newTwin(ctx, embedder, func() time.Time { return now.at })
	if err != nil {
		return nil, err
	}
	run, err := replay.New(ctx, replay.Config{Embedworker: embedder, Worker: twin.beside, Decided: func(d *checkpb.Decision) {
		out[now.session].add(now.number, d)
	}})
	if err != nil {
		return nil, err
	}
	defer run.Close() //nolint:errcheck // the lexical embedder holds nothing
	for i := range all {
		now = &all[i]
		out[now.session].Requests++
		twin.embeddings = &out[now.session].Embeddings
		q := now.request(&sessions[now.session], w)
		if err := run.Request(ctx, "sessions", q); err != nil {
			return nil, fmt.Errorf("evaluate request %d of %s: %w", now.number, sessions[now.session].Source, err)
		}
	}
	return out, nil
}

func (t *timed) request(s *Session, w Way) *logs.Request {
	q := &logs.Request{
		Source: logs.Session, Line: t.session + 1, Time: t.at, Method: "POST", Path: "/v1/chat/completions",
		Caller: "key", Model: s.Model, Body: t.body, Outcome: logs.Outcome{Status: 200},
	}
	if !w.AtOnce {
		q.Caller = fmt.Sprintf("key-%d", t.session)
	}
	if w.Named {
		q.Session = fmt.Sprintf("session-%d", t.session)
	}
	return q
}
