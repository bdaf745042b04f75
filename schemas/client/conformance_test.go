package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cases are those that the SDKs of all languages have in common.
type cases struct {
	Answers []struct {
		Name string
		answer
		Error *wanted
	}
	Checks []struct {
		Name, Call string
		With       json.RawMessage
		Sent       any
		Answer     answer
		Allowed    bool
		Tag        string
		Error      *wanted
	}
	Guards []struct {
		Name     string
		Answers  []answer
		Result   any
		Fails    string
		Sent     []any
		Called   bool
		Error    string
		Problems int
	}
	Leases []struct {
		Name     string
		Answers  []answer
		Settle   [][]any // how, and with what
		Sent     []any
		Error    string
		Problems int
	}
}

type answer struct {
	Status  int
	Headers map[string]string
	Body    json.RawMessage
}

// text returns a body, which is a string if it is no JSON.
func (a answer) text() string {
	var s string
	if json.Unmarshal(a.Body, &s) == nil {
		return s
	}
	return string(a.Body)
}

// wanted is an error in the words of the wire.
type wanted struct {
	Class             string `json:"class"`
	Message           string `json:"message"`
	Action            string `json:"action"`
	Detector          string `json:"detector"`
	Policy            string `json:"policy"`
	Fingerprint       string `json:"fingerprint"`
	HitCount          int    `json:"hit_count"`
	WindowSeconds     int    `json:"window_seconds"`
	CooldownSeconds   int    `json:"cooldown_seconds"`
	LoopID            string `json:"loop_id"`
	RetryAfterSeconds int    `json:"retry_after_seconds"`
	Status            int    `json:"status"`
	Code              string `json:"code"`
	Field             string `json:"field"`
}

// want compares an error with the one that is wanted, which is nil for none.
func (w *wanted) want(t *testing.T, err error) {
	t.Helper()
	var loop *LoopDetectedError
	var fault *Error
	var got wanted
	switch {
	case err == nil:
		if w != nil {
			t.Errorf("no error, want %+v", *w)
		}
		return
	case w == nil:
		t.Errorf("error %v", err)
		return
	case errors.As(err, &loop):
		got = wanted{
			Class: w.Class, Message: loop.Error(), Action: loop.Action, Detector: loop.Detector, Policy: loop.Policy, Fingerprint: loop.Fingerprint,
			HitCount: loop.HitCount, WindowSeconds: int(loop.Window.Seconds()), CooldownSeconds: int(loop.Cooldown.Seconds()),
			LoopID: loop.LoopID, RetryAfterSeconds: int(loop.RetryAfter.Seconds()),
		}
	case errors.As(err, &fault):
		got = wanted{Class: "check", Status: fault.Status, Code: fault.Code, Field: fault.Field}
	default:
		for class, cause := range map[string]error{"unchecked": ErrUnchecked, "killed": ErrKilled, "limited": ErrLimited} {
			if errors.Is(err, cause) {
				got = wanted{Class: class}
			}
		}
	}
	if diff := cmp.Diff(*w, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func conformance(t *testing.T) cases {
	t.Helper()
	text, err := os.ReadFile("conformance.json")
	if err != nil {
		t.Fatal(err)
	}
	var c cases
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// inTurn serves answers in turn, and returns what was sent. After that it is away.
func inTurn(t *testing.T, answers []answer) (url string, sent *[]any) {
	t.Helper()
	sent = &[]any{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var body any
		if err := json.Unmarshal(text, &body); err != nil {
			t.Errorf("sent %s: %v", text, err)
		}
		*sent = append(*sent, body)
		w.WriteHeader(answers[0].Status)
		_, _ = io.WriteString(w, answers[0].text())
		answers = answers[1:]
	}))
	t.Cleanup(server.Close)
	if len(answers) == 0 {
		server.Close()
	}
	return server.URL, sent
}

func TestConformanceOfAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range conformance(t).Answers {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{}
			for name, value := range c.Headers {
				header.Set(name, value)
			}
			loop := FromResponse(&http.Response{StatusCode: c.Status, Header: header, Body: io.NopCloser(strings.NewReader(c.text()))})
			var err error
			if loop != nil {
				err = loop
			}
			c.Error.want(t, err)
		})
	}
}

func TestConformanceOfChecks(t *testing.T) {
	t.Parallel()
	for _, c := range conformance(t).Checks {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			url, sent := inTurn(t, []answer{c.Answer})
			asking, err := New(url)
			if err != nil {
				t.Fatal(err)
			}
			req, call := Request{Peek: c.Call == "peek"}, ToolCall{}
			if c.Call == "check_tool" {
				err = json.Unmarshal(c.With, &call)
			} else {
				err = json.Unmarshal(c.With, &req)
			}
			if err != nil {
				t.Fatal(err)
			}
			var allowed bool
			var tag string
			if c.Call == "check_tool" {
				var d *ToolDecision
				if d, err = asking.CheckTool(t.Context(), call); d != nil {
					allowed, tag = d.Allowed(), d.RequestID
				}
			} else {
				var d *Decision
				if d, err = asking.Check(t.Context(), req); d != nil {
					tagged := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
					d.Tag(tagged)
					allowed, tag = d.Allowed(), tagged.Header.Get(HeaderCheck)
				}
			}
			c.Error.want(t, err)
			if allowed != c.Allowed || tag != c.Tag {
				t.Errorf("allowed %v with tag %q, want %v with %q", allowed, tag, c.Allowed, c.Tag)
			}
			if diff := cmp.Diff([]any{c.Sent}, *sent); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
		})
	}
}

// runOf returns a run whose checks get the answers, what it sends, and how many problems it has
// reported.
func runOf(t *testing.T, answers []answer) (run *Run, sent *[]any, problems *int) {
	t.Helper()
	url, sent := inTurn(t, answers)
	asking, err := New(url)
	if err != nil {
		t.Fatal(err)
	}
	problems = new(int)
	return asking.Run(ToolCall{Session: "s", Project: "demo"}, func(error) { *problems++ }), sent, problems
}

func TestConformanceOfGuards(t *testing.T) {
	t.Parallel()
	for _, c := range conformance(t).Guards {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			run, sent, problems := runOf(t, c.Answers)
			called := false
			type city struct {
				City string `json:"city"`
			}
			weather := Guard(run, "weather", func(_ context.Context, _ city) (any, error) {
				called = true
				if c.Fails != "" {
					return nil, errors.New(c.Fails)
				}
				return c.Result, nil
			})
			result, err := weather(t.Context(), city{"Oslo"})
			said := ""
			if err != nil {
				said = err.Error()
			}
			if said != c.Error || err == nil && !cmp.Equal(result, c.Result) || called != c.Called || *problems != c.Problems {
				t.Errorf("result %v, error %q, called %v, problems %d; want %v, %q, %v, %d", result, said, called, *problems, c.Result, c.Error, c.Called, c.Problems)
			}
			if diff := cmp.Diff(c.Sent, append([]any{}, *sent...)); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
			if h := run.Header(); h.Get("X-Session-ID") != "s" || h.Get("X-Project-ID") != "demo" || len(h) != 2 {
				t.Errorf("headers %v", h)
			}
		})
	}
}

func TestConformanceOfLeases(t *testing.T) {
	t.Parallel()
	for _, c := range conformance(t).Leases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			run, sent, problems := runOf(t, c.Answers)
			said := ""
			lease, err := run.Lease(t.Context(), "weather", map[string]string{"city": "Oslo"})
			if err != nil {
				said, c.Settle = err.Error(), nil
			}
			for _, step := range c.Settle {
				switch step[0] {
				case "done":
					lease.Done(t.Context(), step[1])
				case "fail":
					lease.Fail(t.Context(), errors.New(step[1].(string)))
				case "cancel":
					lease.Cancel(t.Context())
				}
			}
			if said != c.Error || *problems != c.Problems {
				t.Errorf("error %q and %d problems, want %q and %d", said, *problems, c.Error, c.Problems)
			}
			if diff := cmp.Diff(c.Sent, append([]any{}, *sent...)); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
		})
	}
}
