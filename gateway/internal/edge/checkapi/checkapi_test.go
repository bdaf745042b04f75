package checkapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/edge/admit"
	"github.com/unloop/unloop/gateway/internal/edge/auth"
	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/kit/access"
)

// key is Unloop's key of the only client.
const key = "0123456789abcdef0123456789abcdef"

// decider decides the same about everything, and remembers what it was asked.
type decider struct {
	decision client.Decision
	run      client.ToolDecision
	asked    *Described
	// turns are those that were not given back, which a decision may have to wait for. busy says
	// that there are none.
	turns int
	busy  bool
}

func (d *decider) Turn(*http.Request, int) (func(), *client.Error) {
	if d.busy {
		return nil, &client.Error{Status: http.StatusServiceUnavailable, Code: "busy"}
	}
	d.turns++
	return func() { d.turns-- }, nil
}

func (d *decider) decides(h http.Header, action string, asked *Described) {
	if d.turns != 0 {
		panic("a decision has a turn to read")
	}
	h.Set("X-Loop-Action", action)
	d.asked = asked
}

func (d *decider) Check(h http.Header, asked *Described) client.Decision {
	d.decides(h, d.decision.Action, asked)
	return d.decision
}

func (d *decider) CheckRun(h http.Header, asked *Described) client.ToolDecision {
	d.decides(h, d.run.Action, asked)
	return d.run
}

// apiOf returns an API that asks a decider, for bodies of up to 100 bytes. Clients may
// send the key in the place of Anthropic's.
func apiOf(t *testing.T, d Decider) *API {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	gate, err := admit.New(auth.Config{Sources: []string{"key:file:" + file}}, []string{"anthropic"}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	table, err := route.NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{
		Reader: Reader{Table: table, MaxBytes: 100}, Gate: gate, Decider: d, ProofKey: "proof", Ready: func() error { return errors.New("starting") },
	})
}

// keyed returns a POST with the key.
func keyed(path string, body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, body)
	r.Header.Set(access.Header, key)
	return r
}

func TestAPIAnswersItsPaths(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, path string
		body         io.Reader
		header       string
		status       int
		says         string
	}{
		"request":             {"POST", CheckPath, strings.NewReader(`{"prompt":"p"}`), access.Header, 200, `"action":"allow"`},
		"tool call":           {"POST", CheckPath, strings.NewReader(`{"tool":"ls","session":"s"}`), access.Header, 200, `"action":"block"`},
		"fault":               {"POST", CheckPath, strings.NewReader(`{}`), access.Header, 400, `"field":"body"`},
		"fault of the reader": {"POST", CheckPath, iotest.ErrReader(errors.New("cut off")), access.Header, 400, "ended early"},
		"memory is full":      {"POST", CheckPath, iotest.ErrReader(intake.ErrNoRoom), access.Header, 503, "too_many_bodies"},
		"large check":         {"POST", CheckPath, bytes.NewReader(make([]byte, envelope+101)), access.Header, 413, "body_too_large"},
		"large body":          {"POST", CheckPath, strings.NewReader(`{"path":"/x","body":"` + strings.Repeat("x", 101) + `"}`), access.Header, 413, "100 bytes"},
		"no key":              {"POST", CheckPath, strings.NewReader(`{"prompt":"p"}`), "", 401, ""},
		"wrong key":           {"POST", CheckPath, strings.NewReader(`{"prompt":"p"}`), "Authorization", 401, "unloop_key_missing"},
		"wrong key of MCP":    {"POST", mcpPath, strings.NewReader(`{}`), "X-Api-Key", 401, ""},
		"wrong method":        {"GET", CheckPath, nil, access.Header, 405, "a check is a POST"},
		"unknown path":        {"GET", route.Reserved + "x", nil, access.Header, 404, "unknown_path"},
		"ping":                {"GET", pingPath, nil, access.Header, 200, `{"product":"unloop","ready":false,"service":"gateway"}`},
		"challenge":           {"GET", pingPath + "?challenge=c", nil, access.Header, 200, `"proof":"` + access.Proof("proof", "c", "127.0.0.1:1") + `"`},
	} {
		d := decider{decision: client.Decision{Action: "allow"}, run: client.ToolDecision{Action: "block"}}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(c.method, c.path, c.body)
		if c.header != "" {
			r.Header.Set(c.header, key)
		}
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, address("127.0.0.1:1")))
		apiOf(t, &d).ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: answered %d %s, want %d and %s", name, w.Code, w.Body, c.status, c.says)
		}
		if w.Code == http.StatusOK && d.asked != nil && (d.asked.Client.ID == "" || w.Header().Get("X-Loop-Action") == "") {
			t.Errorf("%s: client %q, headers %v", name, d.asked.Client.ID, w.Header())
		}
	}
}

type address string

func (a address) String() string { return string(a) }
func (address) Network() string  { return "tcp" }

func TestClientThatLeftGetsNoDecision(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	apiOf(t, &decider{}).ServeHTTP(w, keyed(CheckPath, strings.NewReader(`{"prompt":"p"}`)).WithContext(ctx))
	if w.Body.Len() > 0 {
		t.Errorf("answered %s", w.Body)
	}
}

func TestDescribedRequestIsReadAsItWouldBeSent(t *testing.T) {
	t.Parallel()
	type read struct {
		Upstream    string
		Format      string
		Body        string
		Asked, Peek bool
		Session     string
		Run         string
	}
	for check, want := range map[string]read{
		`{"prompt":"p","model":"m"}`:                                 {"openai", chat.Format.Name(), `{"model":"m","messages":[{"role":"user","content":"p"}]}`, true, false, "header", ""},
		`{"body":{},"path":"/v1/messages","peek":true}`:              {"anthropic", anthropic.Format.Name(), `{}`, false, true, "header", ""},
		`{"body":{},"path":"/else","format":"anthropic-messages"}`:   {"", anthropic.Format.Name(), `{}`, true, false, "header", ""},
		`{"tool":"ls","arguments":"-l","session":"s"}`:               {"openai", chat.Format.Name(), ``, true, false, "s", "ls -l"},
		`{"tool":"ls","result":{"a":1},"is_error":true}`:             {"openai", chat.Format.Name(), ``, true, false, "header", `ls  done {"a":1} failed`},
		`{"tool":"ls","cancel":true}`:                                {"openai", chat.Format.Name(), ``, true, false, "header", `ls  canceled`},
		`{"explain":true,"path":"/v1/x","model":"m","peek":true}`:    {"openai", plain.Format.Name(), ``, false, true, "header", " explain"},
		`{"tool":"ls","arguments":{"x":null},"path":"/v1/messages"}`: {"anthropic", anthropic.Format.Name(), ``, true, false, "header", `ls {"x":null}`},
	} {
		d := decider{}
		r := keyed(CheckPath, strings.NewReader(check))
		r.Header.Set("X-Session-Id", "header")
		w := httptest.NewRecorder()
		apiOf(t, &d).ServeHTTP(w, r)
		if d.asked == nil {
			t.Errorf("%s: %s", check, w.Body)
			continue
		}
		got := read{
			Upstream: d.asked.Target.Upstream, Format: d.asked.Target.Format.Name(), Body: string(d.asked.Body.Bytes),
			Asked: d.asked.DecisionOnly, Peek: d.asked.Peek, Session: d.asked.Header.Get("X-Session-Id"),
		}
		if run := d.asked.Run; run != nil {
			got.Run = run.Tool + " " + string(run.Arguments)
			if run.Done {
				got.Run += fmt.Sprintf(" done %s", run.Result)
			}
			if run.Failed != nil && *run.Failed {
				got.Run += " failed"
			}
			if run.Canceled {
				got.Run += " canceled"
			}
			if run.Explain {
				got.Run = run.Tool + " explain"
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", check, diff)
		}
	}
}

func TestFaultOfACheckOfAToolCallNamesItsField(t *testing.T) {
	t.Parallel()
	for check, field := range map[string]string{
		`{"tool":"ls","prompt":"p","session":"s"}`:   "tool",
		`{"tool":"ls","method":"PUT","session":"s"}`: "tool",
		`{"tool":"ls"}`: "session",
		`{"explain":true,"tool":"ls","session":"s"}`:            "explain",
		`{"arguments":{},"session":"s"}`:                        "tool",
		`{"tool":"ls","is_error":true,"session":"s"}`:           "is_error",
		`{"tool":"ls","is_error":"no","session":"s"}`:           "is_error",
		`{"tool":"ls","cancel":true,"result":1,"session":"s"}`:  "cancel",
		`{"tool":"ls","cancel":true,"peek":true,"session":"s"}`: "cancel",
		`{"cancel":true,"session":"s"}`:                         "tool",
		`{"explain":true,"cancel":true,"session":"s"}`:          "explain",
		`{"explain":1,"session":"s"}`:                           "explain",
		`{"tool":"ls","path":"elsewhere","session":"s"}`:        "path",
	} {
		c, fault := parse([]byte(check))
		if fault == nil {
			fault = c.complete()
		}
		if fault == nil || fault.Field != field {
			t.Errorf("%s: %+v, want a fault of %s", check, fault, field)
		}
	}
}

func TestOriginalRequestIsThatOfTheOtherGateway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		headers map[string]string
		want    string
	}{
		"nothing":      {nil, "POST gateway /v1/decision"},
		"all":          {map[string]string{"X-Original-Method": "PUT", "X-Original-Uri": "/v1/x?y", "X-Original-Host": "h"}, "PUT h /v1/x?y"},
		"no method":    {map[string]string{"X-Original-Method": "get it"}, ""},
		"no path":      {map[string]string{"X-Original-Uri": "http://h/x"}, ""},
		"broken path":  {map[string]string{"X-Original-Uri": "/%zz"}, ""},
		"path of ours": {map[string]string{"X-Original-Uri": "/unloop/v1/check"}, ""},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://gateway"+DecisionPath, nil)
		for name, value := range c.headers {
			r.Header.Set(name, value)
		}
		original, err := Original(r)
		if err != nil {
			if c.want != "" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if got := original.Method + " " + original.Host + " " + original.URL.RequestURI(); got != c.want || len(original.Header) > 0 {
			t.Errorf("%s: %s with %v, want %s", name, got, original.Header, c.want)
		}
	}
}

// callOver calls a tool over MCP, as a client does.
func callOver(t *testing.T, d Decider, tool string, arguments any) *mcp.CallToolResult {
	t.Helper()
	api := apiOf(t, d)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(access.Header, key)
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: server.URL + mcpPath}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func textOf(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	text, err := json.Marshal(r.Content[0])
	if err != nil {
		t.Fatal(err)
	}
	var content struct{ Text string }
	if err := json.Unmarshal(text, &content); err != nil {
		t.Fatal(err)
	}
	return content.Text
}

func TestMCPToolsAskForTheSameDecisions(t *testing.T) {
	t.Parallel()
	d := &decider{run: client.ToolDecision{Action: "block", Message: "stop"}}
	got := callOver(t, d, schemas.MCPCheck, map[string]any{"tool": "ls", "session": "s"})
	if text := textOf(t, got); text != "block: stop" || got.IsError || d.asked.Client.ID == "" || d.asked.Run.Tool != "ls" {
		t.Errorf("answered %q, asked %+v of %s", text, d.asked.Run, d.asked.Client.ID)
	}
	got = callOver(t, d, schemas.MCPExplain, map[string]any{"session": "s"})
	if text := textOf(t, got); text != "No tool calls of this session are known." || !d.asked.Run.Explain {
		t.Errorf("explained as %q", text)
	}
	for name, arguments := range map[string]map[string]any{
		"no session": {"tool": "ls"}, "no tool": {}, "no field": {"tool": "ls", "x": 1},
	} {
		if got := callOver(t, d, schemas.MCPCheck, arguments); !got.IsError {
			t.Errorf("%s: answered %q", name, textOf(t, got))
		}
	}
	if _, fault := apiOf(t, d).decideRun(httptest.NewRequest(http.MethodPost, mcpPath, nil), nil, false); fault == nil {
		t.Error("a call without arguments is accepted")
	}
}

func TestDecisionsInWords(t *testing.T) {
	t.Parallel()
	counts := client.ToolCounts{Total: 5, Unique: 2, Blocked: 1, MostRepeated: "ls", MostRepeatedCount: 3}
	findings := []client.Finding{{Action: "hint", Rule: "repeat", Message: "Try another."}, {Action: "reject", Rule: "x", Message: "m", Shadow: true}}
	for name, c := range map[string]struct {
		words func(client.ToolDecision) string
		d     client.ToolDecision
		want  string
	}{
		"allowed":           {checkText, client.ToolDecision{Action: "allow"}, "allow"},
		"degraded":          {checkText, client.ToolDecision{Action: "allow", Degraded: "timeout"}, "allow (not checked: timeout)"},
		"nothing is known":  {explainText, client.ToolDecision{Degraded: "timeout"}, "Nothing can be said now: timeout."},
		"nothing was found": {explainText, client.ToolDecision{Counts: client.ToolCounts{Total: 1, Unique: 1}}, "This session made 1 tool calls, 1 of them different, and 0 were blocked. Nothing goes round in circles."},
		"a loop": {
			explainText, client.ToolDecision{Counts: counts, Findings: findings, LoopID: "7"},
			"This session made 5 tool calls, 2 of them different, and 1 were blocked. One call of ls was made 3 times.\n" +
				"- warn (repeat): Try another.\nWho runs Unloop can release it by its id, 7.",
		},
		"a loop that is blocked": {
			explainText, client.ToolDecision{Counts: counts, Findings: []client.Finding{{Action: "reject", Rule: "repeat", Message: "Stop."}, {Action: "break", Rule: "wide", Message: "End."}}},
			"This session made 5 tool calls, 2 of them different, and 1 were blocked. One call of ls was made 3 times.\n" +
				"- block (repeat): Stop.\n- break (wide): End.",
		},
	} {
		if got := c.words(c.d); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A check that gets no turn to be read is refused, in the shape of how it was asked.
func TestChecksWithoutATurnAreRefused(t *testing.T) {
	t.Parallel()
	d := decider{busy: true}
	r := httptest.NewRequest(http.MethodPost, CheckPath, strings.NewReader(`{"prompt":"p"}`))
	r.Header.Set(access.Header, key)
	w := httptest.NewRecorder()
	apiOf(t, &d).ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"busy"`) {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
	if _, fault := apiOf(t, &d).Ask(http.Header{}, r, "signer", client.ToolCall{Session: "s", Tool: "t"}); fault == nil || fault.Code != "busy" {
		t.Errorf("asked: %v", fault)
	}
	if res := callOver(t, &d, schemas.MCPCheck, map[string]any{"session": "s", "tool": "t"}); !res.IsError {
		t.Errorf("over MCP: %v", res)
	}
	if d.asked != nil {
		t.Error("it is decided")
	}
}
