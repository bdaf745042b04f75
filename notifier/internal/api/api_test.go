package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/unloop/unloop/notifier/internal/board"
	"github.com/unloop/unloop/notifier/internal/watch"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/kit/partition"
	"github.com/unloop/unloop/schemas/kit/silences"
	"github.com/unloop/unloop/schemas/match"
	"github.com/unloop/unloop/schemas/openloop"
	"github.com/unloop/unloop/schemas/silence"
	"github.com/unloop/unloop/schemas/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 5, 22, 12, 0, 0, 0, time.UTC)

// hostile is a name that a client may choose.
const hostile = "</script><img src=x onerror=alert(1)>\u2028\nid: 9\n\ndata: x"

// fakeSystem has two parts, one of them a gateway.
type fakeSystem struct{}

func (fakeSystem) parts() []board.Running {
	bundle := &status.Bundle{Version: "7-aa", Source: "pushed", KillSwitches: 1, Omitted: 2, Policies: []status.Policy{{
		ID: "p", Mode: "shadow", FailureMode: "closed", Rules: []string{"base"},
		Detectors: []status.Detector{{Name: "semantic", WindowSeconds: 60, Similarity: 0.95, Steps: []status.Step{{At: 1, Action: "hint"}}}},
	}}}
	return []board.Running{
		{Status: status.Status{Service: "detector", ID: "d", Host: "h", Started: noon, Reason: "starting"}, State: board.NotReady, Heard: noon},
		{Status: status.Status{Service: "gateway", ID: "g", Host: "h", Started: noon, Ready: true, Server: "nats-1", Bundle: bundle}, State: board.Ready, Heard: noon},
	}
}

func (s fakeSystem) Health(context.Context) watch.Health {
	return watch.Health{Parts: s.parts(), NATS: "silent", Server: "nats-1", Streams: []watch.Stream{{Name: "LOOP_EVENTS", Messages: 3, Bytes: 100, MaxBytes: 1000, Replicas: 1}}, Partitions: &partition.State{Count: 4, Before: 2, Phase: partition.Moving}}
}

func (s fakeSystem) Bundles(context.Context) []board.InForce { return board.Bundles(s.parts()) }

func (fakeSystem) Endpoints() []Endpoint {
	return []Endpoint{{Name: "ops", Kind: "webhook", State: Active}, {Name: "chat", Kind: "slack", State: Disabled, Reason: "410", Until: noon}}
}

// fakeOperator does what is asked for loops and silences with the id "known".
type fakeOperator struct{ did chan string }

var errAway = errors.New("NATS does not answer")

func (o fakeOperator) outcome(id string, unknown error) error {
	switch id {
	case "known":
		return nil
	case "alone":
		return operator.ErrNoDetector
	case "broken":
		return errAway
	}
	return fmt.Errorf("do it: %w", unknown)
}

func (o fakeOperator) Release(_ context.Context, actor, id string) (int, error) {
	o.did <- "release " + id + " by " + actor
	return 2, o.outcome(id, operator.ErrNotOpen)
}

func (o fakeOperator) AddSilence(_ context.Context, actor string, s silence.Silence) (silence.Silence, error) {
	o.did <- fmt.Sprintf("silence %s for %s by %s", s.Matchers, s.End.Sub(s.Start), actor)
	s.ID = "s1"
	return s, o.outcome(s.Comment, errAway)
}

func (o fakeOperator) ExpireSilence(_ context.Context, actor, id string) error {
	o.did <- "unsilence " + id + " by " + actor
	return o.outcome(id, silences.ErrUnknown)
}

func (fakeOperator) Sealed() bool { return false }

func (o fakeOperator) AddOverride(_ context.Context, actor string, set schemas.Override) error {
	o.did <- fmt.Sprintf("%s %s %s for %s by %s", set.Action, set.Scope, set.Value, set.ExpiresAt.Sub(set.CreatedAt), actor)
	return o.outcome(set.Value, operator.ErrSealed)
}

func (o fakeOperator) EndOverride(_ context.Context, actor string, ended schemas.Override) error {
	o.did <- fmt.Sprintf("end %s of %s at %s by %s", ended.Action, ended.Scope, ended.EndedAt.Format(time.TimeOnly), actor)
	return o.outcome(ended.Reason, operator.ErrSealed)
}

func (o fakeOperator) Deliver(_ context.Context, actor string, what operator.Delivery, req delivery.Request) (delivery.Record, error) {
	o.did <- string(what) + " " + req.Endpoint + " " + req.ID + " by " + actor
	if req.Endpoint == "alone" {
		return delivery.Record{}, operator.ErrNoNotifier
	}
	rec := delivery.Record{ID: req.ID, Endpoint: req.Endpoint, Status: delivery.Delivered, Queued: noon, Attempts: []delivery.Attempt{{At: noon, Milliseconds: 3}}}
	if req.Endpoint == "failing" {
		rec.Attempts[0].Error = "timeout"
	}
	return rec, o.outcome(strings.Replace(req.Endpoint, "failing", "known", 1), operator.ErrUnknown)
}

func (o fakeOperator) Audit(_ context.Context, n int) ([]schemas.Audit, error) {
	if n == 3 {
		return nil, errAway
	}
	return []schemas.Audit{{At: noon, Actor: "a", Action: schemas.AuditBlock, Target: "1", Via: "cli"}, {At: noon, Actor: "b", Action: schemas.AuditRelease, Target: "2", Detail: "x", Via: "cli"}}, nil
}

// served is an API on a port, with what stands behind it.
type served struct {
	*httptest.Server
	api      *API
	board    *board.Board
	operator fakeOperator
	stop     func()
}

func serve(t *testing.T) *served {
	t.Helper()
	return serveOnly(t, "")
}

// serveOnly serves an API that refuses changes for a reason.
func serveOnly(t *testing.T, refusal string) *served {
	t.Helper()
	done := make(chan struct{})
	s := &served{board: board.New(), operator: fakeOperator{did: make(chan string, 64)}, stop: func() { close(done) }}
	s.api = New(s.board, fakeSystem{}, s.operator, func() string { return refusal }, func() time.Time { return noon }, done)
	s.Server = httptest.NewServer(s.api.Handler())
	t.Cleanup(s.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return s
}

// fillBoard puts one open and one ended loop on the board, with hostile names.
func (s *served) fillBoard(t *testing.T) {
	t.Helper()
	usd := 0.02
	d := event.Data{
		LoopID: "open", Policy: hostile, Detector: "cycle", Mode: "enforce", Action: "reject", Answer: "synthetic", HitCount: 9, Threshold: 3, WindowSeconds: 60,
		CooldownSeconds: 30, Similarity: 0.97, FirstSeen: noon, LastSeen: noon, Saved: event.Saved{Requests: 2, InputTokens: 9, USD: &usd},
		Findings: []event.Finding{{
			Detector: "cycle", Action: "reject", Rule: "cycle", Tool: "a,b", Threshold: 3, WindowSeconds: 60, Similarity: 0.9, Excerpt: hostile,
			Calls: []event.Call{{Tool: "a", Call: "0123456789abcdef", Result: "0123456789abcdef"}, {Call: "0123456789abcdef"}},
		}},
	}
	s.board.Incidents.Put("k", text(t, openloop.Record{Data: d, Tenant: hostile, Ends: noon.Add(time.Minute)}))
	s.board.Silences.Put("s", text(t, silence.Silence{ID: "s", Matchers: match.Matchers{"tenant": {"*"}}, Author: "a", Start: noon, End: noon.Add(time.Hour)}))
	s.board.Silences.Put("t", text(t, silence.Silence{ID: "t", Start: noon.Add(time.Hour), End: noon.Add(2 * time.Hour)}))
	s.board.Silences.Put("u", text(t, silence.Silence{ID: "u", End: noon}))
	s.board.Overrides.Put("o", text(t, schemas.Override{Action: schemas.OverrideBlock, Scope: schemas.ScopeTenant, Value: hostile, ExpiresAt: noon.Add(time.Hour)}))
	for _, name := range []string{"known", "broken", "sealed"} {
		s.board.Overrides.Put(name, text(t, schemas.Override{
			Action: schemas.OverrideExempt, Scope: schemas.ScopeProject, Value: name + "/x", Reason: name, ExpiresAt: noon.Add(time.Hour),
		}))
	}
	s.board.Overrides.Put("p", text(t, schemas.Override{Action: schemas.OverrideBlock, Scope: schemas.ScopeTenant, Value: "over", ExpiresAt: noon}))
	for i, status := range statuses[1:] {
		s.board.Deliveries.Put(fmt.Sprint("d", i), text(t, delivery.Record{
			ID: hostile, Endpoint: "ops", Status: status, Queued: noon, Next: noon, Tried: 1, Reason: hostile, Events: []event.Event{event.New(event.Detected, "e", noon)},
			Attempts: []delivery.Attempt{{At: noon, Milliseconds: 5, Status: 500, Error: hostile, Manual: true}},
		}))
	}
	s.board.Bundle.Set([]byte("bundle_version: 7\npolicies: [{id: p, spec: {prompt: {}}}]\n"), noon)
	d.LoopID = "ended"
	s.publish(t, 1, event.Resolved, d)
}

func (s *served) publish(t *testing.T, sequence uint64, typ event.Type, d event.Data) {
	t.Helper()
	e := event.New(typ, fmt.Sprint(d.LoopID, ".", sequence), noon)
	e.TenantID, e.Data = hostile, d
	body, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	s.board.History.Add(sequence, body)
}

func text(t *testing.T, v any) []byte {
	t.Helper()
	if loop, ok := v.(openloop.Record); ok {
		return loop.Append(nil)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// send sends a request with a JSON body, if there is one, and reads the answer.
func (s *served) send(t *testing.T, method, path, body string, edits ...func(*http.Request)) (int, http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+Prefix+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method != http.MethodGet {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, edit := range edits {
		edit(req)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, got
}

// Every answer is as the API's description says, and every path is in it.
func TestAnswersFitTheDescription(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.fillBoard(t)
	doc := describe(t)
	empty := serve(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		route              string
	}{
		{"GET", "loops", "", 200, "loops"},
		{"GET", "loops?state=open&limit=1&since=1h&policy=x", "", 200, "loops"},
		{"GET", "loops?offset=1&since=2026-05-22T11:00:00Z", "", 200, "loops"},
		{"GET", "loops?state=both", "", 400, "loops"},
		{"GET", "loops?limit=0", "", 400, "loops"},
		{"GET", "loops?offset=x", "", 400, "loops"},
		{"GET", "loops?since=yesterday", "", 400, "loops"},
		{"GET", "loops?since=-1h", "", 400, "loops"},
		{"GET", "loops?q=SAME+prompt&tool=a&sort=saved", "", 200, "loops"},
		{"GET", "loops?sort=colour", "", 400, "loops"},
		{"GET", "loops?q=" + strings.Repeat("+x", 21), "", 400, "loops"},
		{"GET", "groups?by=tool&sort=hits&limit=1&offset=1", "", 200, "groups"},
		{"GET", "groups?by=colour", "", 400, "groups"},
		{"GET", "groups?by=tool&limit=0", "", 400, "groups"},
		{"GET", "groups?by=tool&state=both", "", 400, "groups"},
		{"GET", "timeline?since=1h", "", 200, "timeline"},
		{"GET", "timeline?since=x", "", 400, "timeline"},
		{"GET", "loops/open/history", "", 200, "loops/{id}/history"},
		{"GET", "loops/ended/history", "", 200, "loops/{id}/history"},
		{"GET", "loops/none/history", "", 404, "loops/{id}/history"},
		{"GET", "loops/none/rounds", "", 200, "loops/{id}/rounds"},
		{"POST", "overrides", `{"action":"block","scope":"caller","value":"known","duration_seconds":60,"reason":"r"}`, 201, "overrides"},
		{"POST", "overrides", `{"action":"block","scope":"caller","value":"broken","duration_seconds":60}`, 502, "overrides"},
		{"POST", "overrides", `{"action":"block","scope":"caller","value":"sealed","duration_seconds":60}`, 403, "overrides"},
		{"POST", "overrides", `{"action":"praise","scope":"caller","value":"known","duration_seconds":60}`, 400, "overrides"},
		{"POST", "overrides", `{"action":"block","scope":"caller","value":"known","duration_seconds":0}`, 400, "overrides"},
		{"POST", "overrides", `{"action":"block","scope":"caller","value":"` + strings.Repeat("x", 1001) + `","duration_seconds":60}`, 400, "overrides"},
		{"POST", "overrides", `{`, 400, "overrides"},
		{"DELETE", "overrides/exempt/project/known%2Fx", "", 200, "overrides/{action}/{scope}/{value}"},
		{"DELETE", "overrides/exempt/project/sealed%2Fx", "", 403, "overrides/{action}/{scope}/{value}"},
		{"DELETE", "overrides/exempt/project/broken%2Fx", "", 502, "overrides/{action}/{scope}/{value}"},
		{"DELETE", "overrides/exempt/project/known%2Fx", "{", 400, "overrides/{action}/{scope}/{value}"},
		{"DELETE", "overrides/block/project/known%2Fx", "", 404, "overrides/{action}/{scope}/{value}"},
		{"GET", "loops/open", "", 200, "loops/{id}"},
		{"GET", "loops/ended", "", 200, "loops/{id}"},
		{"GET", "loops/none", "", 404, "loops/{id}"},
		{"POST", "loops/known/release", "", 200, "loops/{id}/release"},
		{"POST", "loops/none/release", `{"actor":"ops"}`, 404, "loops/{id}/release"},
		{"POST", "loops/alone/release", "{}", 503, "loops/{id}/release"},
		{"POST", "loops/broken/release", "", 502, "loops/{id}/release"},
		{"POST", "loops/known/release", "[", 400, "loops/{id}/release"},
		{"GET", "events?limit=5", "", 200, "events"},
		{"GET", "events?limit=5000", "", 400, "events"},
		{"GET", "stats", "", 200, "stats"},
		{"GET", "stats?since=1h", "", 200, "stats"},
		{"GET", "stats?since=x", "", 400, "stats"},
		{"GET", "policies", "", 200, "policies"},
		{"GET", "overrides", "", 200, "overrides"},
		{"GET", "silences", "", 200, "silences"},
		{"POST", "silences", `{"matchers":{"tenant":["acme"]},"author":"a","comment":"known","duration_seconds":60}`, 201, "silences"},
		{"POST", "silences", `{"matchers":{"tenant":["acme"]},"author":"a","comment":"broken","duration_seconds":60}`, 502, "silences"},
		{"POST", "silences", `{"matchers":{"planet":["mars"]},"author":"a","duration_seconds":60}`, 400, "silences"},
		{"POST", "silences", `{"matchers":{"tenant":["acme"]},"author":"a","duration_seconds":0}`, 400, "silences"},
		{"POST", "silences", `{"surprise":1}`, 400, "silences"},
		{"DELETE", "silences/known", "", 200, "silences/{id}"},
		{"DELETE", "silences/none", "", 404, "silences/{id}"},
		{"DELETE", "silences/broken", "", 502, "silences/{id}"},
		{"DELETE", "silences/known", `{"surprise":1}`, 400, "silences/{id}"},
		{"GET", "deliveries", "", 200, "deliveries"},
		{"GET", "deliveries?endpoint=ops&status=dead&limit=1", "", 200, "deliveries"},
		{"GET", "deliveries?status=maybe", "", 400, "deliveries"},
		{"GET", "deliveries?limit=0", "", 400, "deliveries"},
		{"GET", "endpoints", "", 200, "endpoints"},
		{"POST", "deliveries/known/m1/resend", "", 200, "deliveries/{endpoint}/{id}/resend"},
		{"POST", "deliveries/failing/m1/resend", "", 502, "deliveries/{endpoint}/{id}/resend"},
		{"POST", "deliveries/none/m1/resend", "", 404, "deliveries/{endpoint}/{id}/resend"},
		{"POST", "deliveries/alone/m1/resend", "", 503, "deliveries/{endpoint}/{id}/resend"},
		{"POST", "deliveries/broken/m1/resend", "{", 400, "deliveries/{endpoint}/{id}/resend"},
		{"POST", "endpoints/known/test", "", 200, "endpoints/{endpoint}/test"},
		{"POST", "endpoints/broken/test", "", 502, "endpoints/{endpoint}/test"},
		{"POST", "endpoints/known/enable", "", 200, "endpoints/{endpoint}/enable"},
		{"GET", "audit?limit=2", "", 200, "audit"},
		{"GET", "audit?limit=3", "", 502, "audit"},
		{"GET", "health", "", 200, "health"},
	} {
		for _, server := range []*served{s, empty} {
			if server == empty && (c.method != "GET" || c.status != 200 || strings.Contains(c.route, "{")) {
				continue
			}
			status, header, got := server.send(t, c.method, c.path, c.body)
			if status != c.status || header.Get("Content-Type") != "application/json" || header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s %s: status %d, %v, %s; want %d", c.method, c.path, status, header, got, c.status)
				continue
			}
			doc.check(t, c.method, c.route, status, got)
			if bytes.ContainsAny(got, "<>\u2028") {
				t.Errorf("%s %s: %s has markup", c.method, c.path, got)
			}
		}
	}
	doc.wantAll(t)
}

func TestOperatorsAreNamedInTheAudit(t *testing.T) {
	t.Parallel()
	s := serve(t)
	basic := func(r *http.Request) { r.SetBasicAuth("alice", "key") }
	for _, c := range []struct {
		method, path, body, want string
		edits                    []func(*http.Request)
	}{
		{"POST", "loops/known/release", "", "release known by unknown@127.0.0.1", nil},
		{"POST", "loops/known/release", `{"actor":"bob"}`, "release known by bob@127.0.0.1", nil},
		{"POST", "loops/known/release", `{"actor":"bob"}`, "release known by alice@127.0.0.1", []func(*http.Request){basic}},
		{"DELETE", "silences/known", "", "unsilence known by alice@127.0.0.1", []func(*http.Request){basic}},
		{"POST", "overrides", `{"action":"block","scope":"session","value":"5e55","duration_seconds":60,"actor":"bob"}`, "block session 5e55 for 1m0s by bob@127.0.0.1", nil},
		{"POST", "overrides", `{"action":"block","scope":"session","value":"5e55","duration_seconds":60,"actor":"bob"}`, "block session 5e55 for 1m0s by alice@127.0.0.1", []func(*http.Request){basic}},
		{"POST", "silences", `{"matchers":{"policy":["p"]},"duration_seconds":60}`, "silence policy=p for 1m0s by alice@127.0.0.1", []func(*http.Request){basic}},
	} {
		s.send(t, c.method, c.path, c.body, c.edits...)
		if got := <-s.operator.did; got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	status, _, got := s.send(t, "GET", "audit", "")
	if status != 200 || bytes.Index(got, []byte("release")) > bytes.Index(got, []byte("block")) {
		t.Errorf("audit %s is not newest first", got)
	}
}

// A form of another page can't be sent, and a port without a key only shows.
func TestChangesAreGuarded(t *testing.T) {
	t.Parallel()
	s, only := serve(t), serveOnly(t, "set --admin-auth")
	for name, kind := range map[string]string{"a form": "application/x-www-form-urlencoded", "plain text": "text/plain", "nothing": ""} {
		status, _, got := s.send(t, "POST", "loops/known/release", "", func(r *http.Request) { r.Header.Set("Content-Type", kind) })
		if status != http.StatusUnsupportedMediaType {
			t.Errorf("%s: %d %s", name, status, got)
		}
		describe(t).check(t, "POST", "loops/{id}/release", status, got)
	}
	for _, c := range [][2]string{{"POST", "loops/known/release"}, {"POST", "silences"}, {"DELETE", "silences/known"}} {
		if status, _, got := only.send(t, c[0], c[1], "{}"); status != http.StatusForbidden || !bytes.Contains(got, []byte("--admin-auth")) {
			t.Errorf("%s %s: %d %s", c[0], c[1], status, got)
		}
	}
	if status, _, got := s.send(t, "POST", "silences", `{"comment":"`+strings.Repeat("x", maxRequest)+`"}`); status != http.StatusBadRequest {
		t.Errorf("a huge body: %d %.80s", status, got)
	}
	if len(s.operator.did)+len(only.operator.did) != 0 {
		t.Errorf("something was done: %s", <-s.operator.did)
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	s := serve(t)
	if status, _, got := s.send(t, "GET", "nothing", ""); status != http.StatusNotFound || !bytes.Contains(got, []byte("openapi.json")) {
		t.Errorf("unknown path: %d %s", status, got)
	}
	if status, header, _ := s.send(t, "PUT", "loops/x/release", ""); status != http.StatusMethodNotAllowed || header.Get("Allow") != "POST" {
		t.Errorf("unknown method: %d, allow %q", status, header.Get("Allow"))
	}
	if status, _, got := s.send(t, "GET", "openapi.json", ""); status != http.StatusOK || !bytes.Equal(got, Document) {
		t.Errorf("the description: %d", status)
	}
}

// followed is a stream of events that a client follows.
type followed struct {
	t      *testing.T
	lines  *bufio.Scanner
	status int
	stop   func()
}

func (s *served) follow(t *testing.T, last string) *followed {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+Prefix+"events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(req) //nolint:bodyclose // stop closes it
	if err != nil {
		t.Fatal(err)
	}
	f := &followed{t: t, lines: bufio.NewScanner(res.Body), status: res.StatusCode, stop: func() { cancel(); _ = res.Body.Close() }}
	t.Cleanup(f.stop)
	return f
}

// message is one message of a stream.
type message struct{ id, event, data string }

// next returns the next message with an event.
func (f *followed) next() (m message) {
	f.t.Helper()
	for f.lines.Scan() {
		name, value, _ := strings.Cut(f.lines.Text(), ": ")
		switch name {
		case "id":
			m.id = value
		case "event":
			m.event = value
		case "data":
			m.data = value
		case "":
			if m.event != "" {
				return m
			}
		}
	}
	return message{event: "end"}
}

func TestEventsAreFollowedAndResumed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	d := event.Data{LoopID: "l", Policy: hostile}
	s.publish(t, 4, event.Detected, d)
	f := s.follow(t, "")
	if m := f.next(); m.event != "changed" || !strings.Contains(m.data, `"events"`) {
		t.Fatalf("at first %+v", m)
	}
	s.publish(t, 5, event.Ongoing, d)
	m := f.next()
	e, err := event.Parse([]byte(m.data))
	if m.id != "5" || m.event != "loop.ongoing" || err != nil || e.Data.Policy != hostile {
		t.Fatalf("%+v, %v", m, err)
	}
	if m := f.next(); m.event != "changed" || m.data != `{"parts":["events"]}` {
		t.Fatalf("%+v", m)
	}
	f.stop()
	s.publish(t, 6, event.Resolved, d)
	if m := s.follow(t, "5").next(); m.id != "6" || m.event != "loop.resolved" {
		t.Errorf("resumed with %+v", m)
	}
	if m := s.follow(t, "1").next(); m.event != "missed" {
		t.Errorf("after a long absence: %+v", m)
	}
	if m := s.follow(t, "999").next(); m.event != "changed" {
		t.Errorf("after the stream began anew: %+v", m)
	}
	if f := s.follow(t, "x"); f.status != http.StatusBadRequest {
		t.Errorf("a bad id: %d", f.status)
	}
}

func TestStreamsAreBoundedAndEndWithTheService(t *testing.T) {
	t.Parallel()
	s := serve(t)
	f := s.follow(t, "")
	f.next()
	s.api.streams.open.Add(maxStreams)
	if over := s.follow(t, ""); over.status != http.StatusServiceUnavailable {
		t.Errorf("one too many: %d", over.status)
	}
	s.stop()
	if m := f.next(); m.event != "end" {
		t.Errorf("after the end: %+v", m)
	}
	s.Close()
	if open := s.api.streams.open.Load(); open != maxStreams {
		t.Errorf("%d streams are open", open-maxStreams)
	}
}

func TestWhatJSONCantHoldIsAnError(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	answer(w, noon.AddDate(9000, 0, 0))
	if diff := cmp.Diff(http.StatusInternalServerError, w.Code); diff != "" {
		t.Error(diff)
	}
}
