package account

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/memory/answers"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/provider/responses"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/gateway/internal/wire/usage"
	"github.com/unloop/unloop/schemas/checkpb"
)

// detectors note what they are told.
type detectors struct{ told []string }

func (d *detectors) Correct(_ string, all []*checkpb.Correction) {
	for _, c := range all {
		d.told = append(d.told, strings.TrimSpace(fmt.Sprintf("%s %+g %s", c.GetLimit().GetRule(), c.GetDelta(), c.GetRequestId())))
	}
}

func (d *detectors) Outcome(_ *checkpb.Check, aborted bool) {
	d.told = append(d.told, map[bool]string{false: "failed", true: "aborted"}[aborted])
}

// store keeps answers in memory. With err all uses fail.
type store struct {
	mu     sync.Mutex
	err    error
	kept   map[string]string
	askers map[string]*checkpb.AnswerAsker
	done   map[string]bool
	puts   int
}

func newStore() *store {
	return &store{kept: map[string]string{}, askers: map[string]*checkpb.AnswerAsker{}, done: map[string]bool{}}
}

func (s *store) put(key, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts++
	if s.err == nil {
		s.kept[key] = value
	}
	return s.err
}

func tools(calls []*checkpb.ToolCall) string {
	var names []string
	for _, c := range calls {
		names = append(names, c.GetTool())
	}
	return strings.Join(names, " ")
}

func (s *store) Put(_ context.Context, caller, id, session string) error {
	return s.put(caller+" "+id, session)
}

func (s *store) PutCalls(_ context.Context, caller, id string, calls []*checkpb.ToolCall) error {
	return s.put(caller+" calls "+id, tools(calls))
}

func (s *store) PutCallsAt(_ context.Context, key string, calls []*checkpb.ToolCall) error {
	return s.put("calls at "+key, tools(calls))
}

func (s *store) Asker(_ context.Context, caller, id string) (*checkpb.AnswerAsker, error) {
	if asker := s.askers[caller+id]; asker != nil {
		return asker, nil
	}
	return nil, answers.ErrUnknown
}

func (s *store) PutAsker(_ context.Context, caller, id string, asker *checkpb.AnswerAsker) error {
	s.askers[caller+id] = asker
	return s.put(caller+" asks "+id, asker.GetCaller())
}

func (s *store) Finish(_ context.Context, caller, id string) (bool, error) {
	first := !s.done[caller+id]
	s.done[caller+id] = true
	return first && s.err == nil, s.err
}

// asked is when the checks of all tests were made.
var asked = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// opened returns the account of a counted request whose rule "tokens" reserved 100 tokens,
// and what the detectors are told of it.
func opened(t *testing.T, format *provider.Format, s *store) (*Account, *detectors) {
	t.Helper()
	d := &detectors{}
	b := NewDeps(Deps{Detectors: d, Store: s, Timeout: time.Minute, Now: func() time.Time { return asked.Add(1500 * time.Millisecond) }}, prometheus.NewRegistry())
	return &Account{
		Deps: b, HTTP: httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil),
		Request:  &request.Request{Method: http.MethodPost, Target: route.Target{Format: format}, Prompt: &provider.Prompt{}},
		Subject:  request.Subject{Identity: &checkpb.Identity{Caller: "me", Session: "session"}},
		Evidence: evidence.Evidence{Check: &checkpb.Check{RequestId: "id"}, Limits: limits(), At: asked},
		Decision: &checkpb.Decision{Limits: []*checkpb.LimitVerdict{{Taken: true}, {Taken: true}, {}}}, Counted: true,
	}, d
}

// limits are the rules of a check: one that reserved, one whose cost was known, and one
// that took nothing.
func limits() []evidence.Limit {
	tokens := func(u usage.Usage) float64 {
		return float64(u.Input-u.Cached) + 0.5*float64(u.Cached) + 2*float64(u.Output)
	}
	return []evidence.Limit{
		{Wire: &checkpb.Limit{Rule: "tokens", Cost: 100}, Cost: tokens},
		{Wire: &checkpb.Limit{Rule: "requests", Cost: 1}},
		{Wire: &checkpb.Limit{Rule: "refused", Cost: 100}, Cost: tokens},
	}
}

// answered passes an upstream's answer through an account to a client that reads all of it,
// or that leaves after some bytes.
func answered(t *testing.T, a *Account, status int, contentType, body string, left ...int64) {
	t.Helper()
	res := &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, ContentLength: -1, Body: io.NopCloser(strings.NewReader(body)), Request: a.HTTP,
	}
	a.Answer(res)
	from := io.Reader(res.Body)
	if len(left) > 0 {
		from = io.LimitReader(from, left[0])
	}
	passed, err := io.ReadAll(from)
	if err != nil || len(left) == 0 && string(passed) != body {
		t.Errorf("%q passed, %v", passed, err)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
}

const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
	// used is an answer that cost 50: 11 tokens of input, 10 cached ones for half, and 17 of output for twice.
	used = `{"usage":{"prompt_tokens":21,"prompt_tokens_details":{"cached_tokens":10},"completion_tokens":17}}`
)

func TestResultOfARequestIsToldTheDetectorsOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		typ    string
		body   string
		edit   func(*Account)
		want   []string
		after  int
	}{
		"usage":             {200, typeJSON, used, nil, []string{"tokens -50"}, 200},
		"no usage":          {200, typeJSON, `{}`, nil, []string{"tokens -100"}, 200}, // given back afterwards
		"exact estimate":    {200, typeJSON, `{"usage":{"prompt_tokens":100}}`, nil, nil, 200},
		"overloaded":        {503, typeJSON, `{}`, nil, []string{"tokens -100", "failed"}, 503},
		"limited":           {429, typeJSON, `{}`, nil, []string{"tokens -100", "failed"}, 429},
		"bad request":       {400, typeJSON, `{}`, nil, []string{"tokens -100"}, 400},
		"upgraded":          {101, "", used, nil, []string{"tokens -100"}, 101},
		"error in a stream": {200, typeEvents, "data: {\"error\":{\"code\":1}}\n\n", nil, []string{"failed", "tokens -100"}, 502},
		"not counted":       {503, typeJSON, `{}`, func(a *Account) { a.Counted = false }, []string{"tokens -100"}, 503},
		"asked only":        {503, typeJSON, `{}`, func(a *Account) { a.Request.DecisionOnly = true }, []string{"tokens -100 id", "failed"}, 503},
		"no reservation":    {200, typeJSON, used, func(a *Account) { a.Evidence.Limits = nil }, nil, 200},
		"old detector":      {200, typeJSON, used, func(a *Account) { a.Decision = &checkpb.Decision{} }, nil, 200},
	} {
		a, d := opened(t, chat.Format, newStore())
		if c.edit != nil {
			c.edit(a)
		}
		answered(t, a, c.status, c.typ, c.body)
		a.GiveBack()
		a.GiveBack()
		if diff := cmp.Diff(c.want, d.told); diff != "" || a.Status != c.after {
			t.Errorf("%s: status %d, want %d; told (-want +got):\n%s", name, a.Status, c.after, diff)
		}
	}
}

func TestUsageIsReadForARecordingAlone(t *testing.T) {
	t.Parallel()
	a, d := opened(t, chat.Format, newStore())
	a.Evidence.Limits = nil
	if a.Reads() {
		t.Error("usage is read that nobody needs")
	}
	a.Metered = true
	answered(t, a, 200, typeJSON, used)
	if diff := cmp.Diff(usage.Usage{Input: 21, Cached: 10, Output: 17}, a.Usage); diff != "" || len(d.told) > 0 || !a.Reads() {
		t.Errorf("told %v; usage (-want +got):\n%s", d.told, diff)
	}
}

func TestClientThatLeavesDuringAnAnswerAbortsIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		left   bool
		want   string
	}{{200, true, "aborted"}, {200, false, "failed"}, {0, true, "failed"}, {500, true, "failed"}} {
		a, d := opened(t, chat.Format, newStore())
		ctx, leave := context.WithCancel(t.Context())
		a.HTTP = a.HTTP.WithContext(ctx)
		a.Status = c.status
		if c.left {
			leave()
		}
		a.Uncount()
		a.Uncount()
		leave()
		if !slices.Equal(d.told, []string{c.want}) {
			t.Errorf("%+v: told %v", c, d.told)
		}
	}
}

// answerOf is an answer in the format of Responses with two calls. It cost 20 + 2·40.
const answerOf = `{"id":"resp_1","output":[{"type":"function_call","id":"fc_1","call_id":"call_1","name":"ls","arguments":"{}"},` +
	`{"type":"function_call","id":"fc_2","call_id":"call_2","name":"cat","arguments":"{}"}],"usage":{"input_tokens":20,"output_tokens":40}}`

func TestCallsOfAnAnswerAreStoredForLaterRequests(t *testing.T) {
	t.Parallel()
	conversation := "calls at " + answers.Key("me", "conv_1")
	for name, c := range map[string]struct {
		edit func(*Account)
		want map[string]string
	}{
		"session and calls": {func(*Account) {}, map[string]string{"me resp_1": "session", "me calls resp_1": "open ls cat"}},
		"session alone":     {func(a *Account) { a.Evidence.CallsWatched = false }, map[string]string{"me resp_1": "session"}},
		"prompt not read":   {func(a *Account) { a.Request.Prompt = nil }, map[string]string{"me resp_1": "session", "me calls resp_1": "ls cat"}},
		"no session":        {func(a *Account) { a.Subject.Identity.Session = "" }, map[string]string{}},
		"conversation": {
			func(a *Account) { a.Request.Prompt.Conversation = "conv_1" },
			map[string]string{"me resp_1": "session", "me calls resp_1": "open ls cat", conversation: "open ls cat"},
		},
		"items that may be referred to": {
			func(a *Account) { a.Request.Prompt.Referable = true },
			map[string]string{"me resp_1": "session", "me calls resp_1": "open ls cat", "me calls fc_1": "ls", "me calls fc_2": "cat"},
		},
		"background": {
			func(a *Account) { a.Request.Prompt.Background, a.Fetcher = true, "key" },
			map[string]string{"me resp_1": "session", "me calls resp_1": "open ls cat", "key asks resp_1": "me"},
		},
		"background that nobody can fetch": {
			func(a *Account) { a.Request.Prompt.Background = true },
			map[string]string{"me resp_1": "session", "me calls resp_1": "open ls cat"},
		},
	} {
		s := newStore()
		a, d := opened(t, responses.Format, s)
		a.Evidence.CallsWatched, a.Evidence.Open = true, []provider.ToolCall{{Tool: "open"}}
		c.edit(a)
		answered(t, a, 200, typeJSON, answerOf)
		if diff := cmp.Diff(c.want, s.kept); diff != "" {
			t.Errorf("%s: stored (-want +got):\n%s", name, diff)
		}
		if lost := testutil.ToFloat64(a.lost); lost != 0 {
			t.Errorf("%s: %v are lost", name, lost)
		}
		if len(d.told) > 0 { // it cost what was reserved
			t.Errorf("%s: told %v", name, d.told)
		}
	}
}

func TestWhatTheStoreRefusesIsCounted(t *testing.T) {
	t.Parallel()
	s := newStore()
	s.err = errors.New("down")
	a, _ := opened(t, responses.Format, s)
	a.Evidence.CallsWatched = true
	answered(t, a, 200, typeJSON, answerOf)
	if lost := testutil.ToFloat64(a.lost); lost != 2 {
		t.Errorf("%v are lost, want the session and the calls", lost)
	}
}

func TestStoredCallsAreBounded(t *testing.T) {
	t.Parallel()
	s := newStore()
	a, _ := opened(t, responses.Format, s)
	a.Evidence.CallsWatched = true
	var b strings.Builder
	b.WriteString(`{"id":"resp_1","output":[{"type":"message"},{"type":"function_call","call_id":"x","name":"` + strings.Repeat("x", maxToolName+1) + `","arguments":"{}"}`)
	for i := range maxOpenCalls + 5 {
		fmt.Fprintf(&b, `,{"type":"function_call","call_id":"call_%d","name":"t","arguments":"{}"}`, i)
	}
	answered(t, a, 200, typeJSON, b.String()+`]}`)
	if n := strings.Count(s.kept["me calls resp_1"], "t"); n != maxOpenCalls {
		t.Errorf("%d calls are stored", n)
	}
}

// A stream that says again and again that its calls are whole causes few writes.
func TestCallsOfOneAnswerAreStoredAFewTimes(t *testing.T) {
	t.Parallel()
	s := newStore()
	a, _ := opened(t, responses.Format, s)
	a.Evidence.CallsWatched, a.Request.Prompt.Referable = true, true
	const call = `{"id":"fc_1","type":"function_call","call_id":"c1","name":"t","arguments":"{}"}`
	answered(t, a, 200, typeEvents, strings.Repeat(`data: {"response":{"id":"resp_1","output":[`+call+"]}}\n\n", 1000))
	if s.puts > 1+2*maxStores { // the session, and the call by the ids of its item and of the answer
		t.Errorf("%d writes", s.puts)
	}
}

func TestErrorInTheFormatOfResponsesTakesTheRequestBack(t *testing.T) {
	t.Parallel()
	a, d := opened(t, responses.Format, newStore())
	answered(t, a, 200, typeJSON, `{"id":"resp_1","error":{"code":"server_error"}}`)
	if diff := cmp.Diff([]string{"failed", "tokens -100"}, d.told); diff != "" || a.Status != http.StatusBadGateway {
		t.Errorf("status %d; told (-want +got):\n%s", a.Status, diff)
	}
}

// fetch is the account of a request that fetches an answer.
func fetch(t *testing.T, s *store, id string) (*Account, *detectors) {
	t.Helper()
	a, d := opened(t, plain.Format, s)
	a.Request = &request.Request{Method: http.MethodGet, Path: "/v1/responses/" + id}
	a.Evidence, a.Decision, a.Counted = evidence.Evidence{}, nil, false
	a.Subject.Identity.Caller = "key"
	return a, d
}

func TestCostOfAnAnswerInBackgroundModeIsCorrectedOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, fetched string
		edit           func(*Account, *store)
		want           []string
	}{
		"exactly as estimated":         {`{"id":"resp_1","status":"queued"}`, answerOf, nil, nil},
		"cheaper than estimated":       {`{"id":"resp_1"}`, `{"id":"resp_1","usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":20},"output_tokens":5}}`, nil, []string{"tokens -70"}},
		"failed where it is fetched":   {`{"id":"resp_1"}`, `{"id":"resp_1","error":{"code":"x"}}`, nil, []string{"tokens -100"}},
		"not finished":                 {`{"id":"resp_1"}`, `{"id":"resp_1","status":"in_progress"}`, nil, nil},
		"at once":                      {`{"id":"resp_1","usage":{"input_tokens":10}}`, `{"id":"resp_1","usage":{"input_tokens":10}}`, nil, []string{"tokens -90"}},
		"without an id":                {`{"usage":{"input_tokens":10}}`, `{}`, nil, []string{"tokens -90"}},
		"with the store out of order":  {`{"id":"resp_1"}`, `{"id":"resp_1","usage":{"input_tokens":10}}`, func(_ *Account, s *store) { s.err = errors.New("down") }, nil},
		"without a reservation":        {`{"id":"resp_1"}`, `{"id":"resp_1","usage":{"input_tokens":10}}`, func(a *Account, _ *store) { a.Evidence.Limits = nil }, nil},
		"an answer that nobody stored": {`{"id":"resp_1"}`, `{"id":"resp_1","usage":{"input_tokens":10}}`, func(a *Account, _ *store) { a.Fetcher = "" }, nil},
	} {
		s := newStore()
		a, first := opened(t, responses.Format, s)
		a.Evidence.CallsWatched, a.Fetcher, a.Request.Prompt.Background = true, "key", true
		if c.edit != nil {
			c.edit(a, s)
		}
		answered(t, a, 200, typeJSON, c.first)
		told := first.told
		for range 2 {
			b, d := fetch(t, s, "resp_1")
			answered(t, b, 200, typeJSON, c.fetched)
			told = append(told, d.told...)
		}
		if diff := cmp.Diff(c.want, told); diff != "" {
			t.Errorf("%s: told (-want +got):\n%s", name, diff)
		}
		if c.fetched == answerOf && s.kept["me calls resp_1"] != "ls cat" {
			t.Errorf("%s: stored %v", name, s.kept)
		}
	}
}

func TestOnlyRequestsForAnAnswerFetchIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, path string
		format       *provider.Format
		want         string
	}{
		"fetch":          {"GET", "/v1/responses/resp_1", plain.Format, "resp_1"},
		"deletion":       {"DELETE", "/v1/responses/resp_1", plain.Format, ""},
		"list":           {"GET", "/v1/responses/", plain.Format, ""},
		"another object": {"GET", "/v1/files/f", plain.Format, ""},
		"items":          {"GET", "/v1/responses/resp_1/input_items", plain.Format, ""},
		"prompt":         {"GET", "/v1/responses/resp_1", responses.Format, ""},
	} {
		if got, _ := fetchedID(&request.Request{Method: c.method, Path: c.path, Target: route.Target{Format: c.format}}); got != c.want {
			t.Errorf("%s: fetches %q, want %q", name, got, c.want)
		}
	}
	a, d := fetch(t, newStore(), "resp_1")
	answered(t, a, 404, typeJSON, `{}`)
	if len(d.told) > 0 {
		t.Errorf("told %v", d.told)
	}
}

func TestStatusesAfterWhichClientsSendAgainDoNotCount(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{200: false, 400: false, 401: false, 404: false, 408: true, 409: true, 429: true, 499: false, 500: true, 529: true} {
		if got := Uncounted(status); got != want {
			t.Errorf("%d does not count: %t", status, got)
		}
	}
}

func TestCorrectionsSayWhatReservationsWereOffBy(t *testing.T) {
	t.Parallel()
	d := &checkpb.Decision{Limits: []*checkpb.LimitVerdict{{Taken: true}, {Taken: true}, {}}}
	l := limits()[0].Wire
	for name, c := range map[string]struct {
		u    *usage.Usage
		at   time.Time
		id   string
		want []*checkpb.Correction
	}{
		"nothing spent":    {nil, asked.Add(time.Second), "", []*checkpb.Correction{{Limit: l, Delta: -100, AgeMs: 1000}}},
		"check taken back": {nil, asked, "id", []*checkpb.Correction{{Limit: l, Delta: -100, RequestId: "id"}}},
		"clock went back":  {&usage.Usage{Input: 300, Cached: 100}, asked.Add(-time.Second), "", []*checkpb.Correction{{Limit: l, Delta: 150}}},
		"as estimated":     {&usage.Usage{Output: 50}, asked, "", nil},
	} {
		got := Corrections(Reserved(limits(), d), c.u, asked, c.at, c.id)
		if diff := cmp.Diff(c.want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := Corrections(Reserved(limits(), nil), nil, asked, asked, ""); got != nil {
		t.Errorf("corrected %v without a decision", got)
	}
}

func TestClientThatLeavesPaysForWhatCame(t *testing.T) {
	t.Parallel()
	a, d := opened(t, anthropic.Format, newStore())
	begin := "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10}}}\n\n"
	answered(t, a, 200, typeEvents, begin+"data: {\"type\":\"ping\"}\n\n", int64(len(begin)))
	if diff := cmp.Diff([]string{"tokens -90"}, d.told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
