package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.yaml.in/yaml/v3"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

const besidePath = "/unloop/v1/beside/"

// asksBeside is what another gateway asks about one prompt, again and again.
type asksBeside struct {
	path, body string
	header     http.Header
	// passes and stops are in the answers before and from the sixth on, which have these
	// statuses.
	passes, stops          string
	passStatus, stopStatus int
}

const (
	chatMessages  = `[{"role":"user","content":"Try once more."}]`
	signingSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
)

func besideCallers() map[string]asksBeside {
	return map[string]asksBeside{
		"litellm": {
			path:   "litellm/beta/litellm_basic_guardrail_api",
			body:   `{"input_type":"request","litellm_call_id":"","model":"m","structured_messages":` + chatMessages + `,"texts":["Try once more."],"request_headers":{"x-litellm-session-id":"s"},"request_data":{"user_api_key_hash":"k1"},"new_field":1}`,
			passes: `{"action":"NONE"}`, stops: `"action":"BLOCKED","blocked_reason":"Stopped by Unloop`, passStatus: 200, stopStatus: 200,
		},
		"portkey": {
			path:   "portkey",
			body:   `{"eventType":"beforeRequestHook","requestType":"chatComplete","provider":"openai","request":{"json":{"model":"m","messages":` + chatMessages + `},"text":"Try once more."},"metadata":{"session_id":"s"}}`,
			passes: `{"verdict":true}`, stops: `"verdict":false`, passStatus: 200, stopStatus: 200,
		},
		"agentgateway": {
			path: "agentgateway/request", body: `{"body":{"messages":` + chatMessages + `}}`, header: http.Header{"X-Session-Id": {"s"}},
			passes: `{"action":{}}`, stops: `"status_code":429`, passStatus: 200, stopStatus: 200,
		},
		"anthropic": {
			path:   "anthropic",
			body:   `{"type":"prompt","request_id":"r","tenant_id":"t","actor":{"id":"u"},"source":{"application":"claude-code"},"session_id":"s","model":"m","messages":[{"role":"user","content":[{"type":"text","text":"Try once more."}]}]}`,
			passes: `{"action":"allow"}`, stops: `"action":"deny","deny_reason":"Stopped by Unloop`, passStatus: 200, stopStatus: 200,
		},
		"traefik": {
			path: "traefik", body: `{"model":"m","messages":` + chatMessages + `}`,
			header: http.Header{"X-Forwarded-Method": {"POST"}, "X-Forwarded-Uri": {"/v1/chat/completions"}, "X-Forwarded-Host": {"llm.example"}, "Content-Type": {"application/json"}},
			passes: "", stops: `"code":"recursive_loop_detected"`, passStatus: 200, stopStatus: 429,
		},
		"kong": {
			path: "kong", body: `{"model":"m","max_tokens":1,"messages":` + chatMessages + `}`, header: http.Header{"X-Forwarded-Uri": {"/v1/messages"}},
			passes: "", stops: `{"type":"error","error":{"type":"rate_limit_error"`, passStatus: 200, stopStatus: 429,
		},
	}
}

// askBeside sends a question, signed if its caller signs.
func askBeside(t *testing.T, url string, a asksBeside) answered {
	t.Helper()
	c := call{method: http.MethodPost, path: besidePath + a.path, body: a.body, header: a.header.Clone()}
	if c.header == nil {
		c.header = http.Header{}
	}
	if strings.HasPrefix(a.path, "anthropic") {
		signHook(t, c.header, a.body)
	}
	return send(t, url, c)
}

// signHook signs a question as Anthropic does.
func signHook(t *testing.T, h http.Header, body string) {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(signingSecret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	signature, err := hook.Sign("msg_1", now, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	h.Set("Webhook-Id", "msg_1")
	h.Set("Webhook-Timestamp", fmt.Sprint(now.Unix()))
	h.Set("Webhook-Signature", signature)
}

// signedHooks has the gateway verify Anthropic's signatures.
func signedHooks(t *testing.T) func(*system.Config) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(signingSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(cfg *system.Config) { cfg.Gateway.BesideSecret = map[string]string{"anthropic": "file:" + secret} }
}

func startBeside(t *testing.T, edits ...func(*system.Config)) string {
	t.Helper()
	return start(t, echo(t), append(edits, signedHooks(t))...).URL()
}

// Each gateway that asks is told in its own form that the sixth equal prompt must not be sent.
func TestGatewaysThatAskAreAnsweredInTheirForm(t *testing.T) {
	t.Parallel()
	url := startBeside(t)
	for name, a := range besideCallers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a.body = strings.ReplaceAll(a.body, "once more", "once more with "+name)
			if a.header = a.header.Clone(); a.header == nil {
				a.header = http.Header{}
			}
			a.header.Set("Authorization", "Bearer sk-"+name) // else all would be the sessions of one caller
			for n := 1; n <= 6; n++ {
				got := askBeside(t, url, a)
				status, want := a.passStatus, a.passes
				if n == 6 {
					status, want = a.stopStatus, a.stops
				}
				if got.status != status || !strings.Contains(string(got.body), want) {
					t.Errorf("answer %d: %d %s, want %d with %s", n, got.status, got.body, status, want)
				}
			}
		})
	}
}

// Where Unloop asks for keys, gateways that ask send one; a signature is enough.
func TestGatewaysThatAskNeedAKeyOrASignature(t *testing.T) {
	t.Parallel()
	b := startBesides(t, guarded(t))
	for name, c := range callouts() {
		if c.rpc { // see TestCallersOfRPCNeedAKey
			continue
		}
		ask := func(who string) (status int, says string) {
			t.Helper()
			status, says, err := b.send(t, c, who, strings.NewReader(c.question("Hello from "+name)))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return status, says
		}
		status, says := ask("sk-one")
		if signed := name == "anthropic"; signed != (status/100 == 2) || !signed && (status != http.StatusUnauthorized || !strings.Contains(says, c.malformed.says)) {
			t.Errorf("%s without a key: %d %s", name, status, says)
		}
		if c.header = c.header.Clone(); c.header == nil {
			c.header = http.Header{}
		}
		c.header.Set("X-Unloop-Key", aliceKey)
		if status, says := ask("sk-one"); status/100 != 2 {
			t.Errorf("%s with a key: %d %s", name, status, says)
		}
	}
}

// While no detector answers, gateways that ask hear what the policy of the path says: pass, or stop
// what could not be checked.
func TestGatewaysThatAskFollowTheFailureMode(t *testing.T) {
	t.Parallel()
	silent := natstest.Start(t)
	if _, err := silent.Conn().Subscribe(schemas.SubjectCheck, func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	url := startGateway(t, silent.Conn(), &lines{}, echo(t), signedHooks(t), policies(t, `
bundle_version: 1
policies:
  - {id: open, spec: {selector: {pathExact: /v1/messages}, prompt: {max_hits: 1}}}
  - {id: closed, spec: {selector: {pathExact: /v1/chat/completions}, failure_mode: closed, prompt: {max_hits: 1}}}
`))
	stops := map[string]string{"litellm": `"action":"BLOCKED"`, "portkey": `"verdict":false`, "agentgateway": `"status_code":429`, "traefik": `"code":"loop_check_unavailable"`}
	for name, a := range besideCallers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := cmp.Or(stops[name], a.passes)
			got := askBeside(t, url, a)
			for deadline := time.Now().Add(backWithin); !strings.Contains(string(got.body), want) && got.status == http.StatusServiceUnavailable && time.Now().Before(deadline); {
				got = askBeside(t, url, a) // it lacked processors
			}
			if !strings.Contains(string(got.body), want) || stops[name] == "" && got.status != a.passStatus {
				t.Errorf("%d %s, want %s", got.status, got.body, want)
			}
		})
	}
}

// What is malformed, oversized or unsigned gets an error that says so, and answers pass.
func TestGatewaysThatAskBadly(t *testing.T) {
	t.Parallel()
	url := startBeside(t)
	for name, c := range map[string]struct {
		path, body string
		status     int
		says       string
	}{
		"an unknown caller":           {"other", `{}`, 404, "litellm, nginx, portkey, traefik"},
		"no JSON":                     {"litellm/beta/x", `{`, 400, `{"error":{"message":"litellm: a guardrail's request`},
		"no messages":                 {"litellm/x", `{"input_type":"request"}`, 400, "no messages"},
		"another shape":               {"portkey", `{"requestType":"chatComplete","request":{"json":[]}}`, 400, "no messages"},
		"messages of another shape":   {"agentgateway/request", `{"body":{"messages":"hi"}}`, 400, `{"action":{"body":"agentgateway: `},
		"an answer of LiteLLM":        {"litellm/x", `{"input_type":"response","tool_calls":[]}`, 200, "NONE"},
		"an answer of Portkey":        {"portkey", `{"eventType":"afterRequestHook","requestType":"chatComplete"}`, 200, "true"},
		"an answer of agentgateway":   {"agentgateway/response", `{}`, 200, "action"},
		"embeddings":                  {"portkey", `{"eventType":"beforeRequestHook","requestType":"embed"}`, 200, "true"},
		"without a signature":         {"anthropic", `{"type":"prompt"}`, 401, `{"type":"error","error":{"type":"authentication_error"`},
		"without a path":              {"traefik", `{}`, 400, `{"error":{"message":"traefik: X-Forwarded-Uri`},
		"no JSON of Docker's":         {"docker", `[`, 400, `"isError":true`},
		"no call of nginx":            {"nginx", strings.Repeat("x", 9<<20), 413, ""},
		"too large":                   {"portkey", `{"request":{"json":{"a":"` + strings.Repeat("x", 9<<20) + `"}}}`, 413, `"name":"body_too_large"`},
		"a result of a tool":          {"docker", `{"content":[]}`, 200, ""},
		"a session that is not named": {"nginx", ``, 204, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := send(t, url, call{method: http.MethodPost, path: besidePath + c.path, body: c.body})
			if got.status != c.status || !strings.Contains(string(got.body), c.says) {
				t.Errorf("%d %.300s, want %d with %q", got.status, got.body, c.status, c.says)
			}
		})
	}
}

// A throttle that holds requests back for longer than Envoy waits refuses them instead.
func TestThrottlesObeyTheTimeLimitOfWhoAsks(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t), policies(t, `
bundle_version: 1
policies:
  - {id: slow, spec: {selector: {pathPrefix: /}, loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 2, action: throttle}}}
`))
	for limit, want := range map[string]int{"100": http.StatusTooManyRequests, "60000": http.StatusOK, "none": http.StatusOK} {
		ask := call{method: http.MethodPost, path: besidePath + "envoy/v1/chat/completions", body: `{"messages":[{"role":"user","content":"In ` + limit + ` ms."}]}`}
		ask.header = http.Header{"X-Envoy-Expected-Rq-Timeout-Ms": {limit}}
		if got := send(t, s.URL(), ask); got.status != http.StatusOK {
			t.Errorf("%s ms: %d %s", limit, got.status, got.body)
		}
		if got := send(t, s.URL(), ask); got.status != want {
			t.Errorf("%s ms, again: %d %s, want %d", limit, got.status, got.body, want)
		}
	}
}

// A tool's calls are stopped at Docker's gateway, and nginx refuses the session then.
func TestCallsThatAreStoppedCloseNginxsLatch(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	latch := call{method: http.MethodGet, path: besidePath + "nginx", header: http.Header{"X-Session-Id": {"run-1"}, "X-Original-Uri": {"/v1/chat/completions"}}}
	if got := send(t, url, latch); got.status != http.StatusNoContent {
		t.Errorf("before: %d %s", got.status, got.body)
	}
	last := answered{}
	for range 5 {
		last = send(t, url, call{method: http.MethodPost, path: besidePath + "docker?session=run-1", body: `{"method":"tools/call","params":{"name":"search","arguments":{"q":"again"}}}`})
	}
	var result struct {
		IsError bool
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(last.body, &result); err != nil || !result.IsError || len(result.Content) != 1 || !strings.Contains(result.Content[0].Text, "search") {
		t.Errorf("the fifth call: %d %s", last.status, last.body)
	}
	if got := send(t, url, latch); got.status != http.StatusForbidden || got.header.Get("X-Unloop-Loop") == "" {
		t.Errorf("after: %d %v %s", got.status, got.header, got.body)
	}
}

// A loop that begins at one gateway and goes on at another is one incident.
func TestALoopAcrossGatewaysIsOneIncident(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t))
	const prompt = `{"model":"m","messages":[{"role":"user","content":"And again."}]}`
	session := http.Header{"X-Session-Id": {"run-1"}, "Authorization": {"Bearer sk-one"}}
	for range 3 {
		send(t, s.URL(), call{method: http.MethodPost, path: besidePath + "portkey", header: session, body: `{"eventType":"beforeRequestHook","requestType":"chatComplete","request":{"json":` + prompt + `},"metadata":{"session_id":"run-1"}}`})
	}
	forwarded := session.Clone()
	forwarded.Set("X-Forwarded-Uri", "/v1/chat/completions")
	for range 2 {
		send(t, s.URL(), call{method: http.MethodPost, path: besidePath + "traefik", header: forwarded, body: prompt})
	}
	direct := call{method: http.MethodPost, path: "/v1/chat/completions", header: session, body: prompt}
	first := send(t, s.URL(), direct)
	if first.status != http.StatusTooManyRequests || first.header.Get("X-Loop-Count") != "6" {
		t.Fatalf("the sixth: %d %v", first.status, first.header)
	}
	again := send(t, s.URL(), call{method: http.MethodPost, path: besidePath + "portkey", header: session, body: `{"eventType":"beforeRequestHook","requestType":"chatComplete","request":{"json":` + prompt + `},"metadata":{"session_id":"run-1"}}`})
	var refused struct{ Detail loopDetail }
	var verdict struct {
		Data struct {
			LoopID string `json:"loop_id"`
		}
	}
	if json.Unmarshal(first.body, &refused) != nil || json.Unmarshal(again.body, &verdict) != nil || refused.Detail.LoopID == "" || verdict.Data.LoopID != refused.Detail.LoopID {
		t.Errorf("loop %q, then %s", refused.Detail.LoopID, again.body)
	}
}

// A loop that is hinted: LiteLLM gets the hint in the newest text, agentgateway in a message of
// its own; and a tool that goes in circles is taken away where there are others.
func TestHintsReachModelsBehindOtherGateways(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	messages := func(rounds int) string {
		all := []string{`{"role":"user","content":"How is the weather?"}`}
		for i := range rounds {
			all = append(all, fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":"weather","arguments":"{}"}}]}`, i),
				fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","content":"It is sunny in all of the country."}`, i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	tools := `[{"type":"function","function":{"name":"weather"}},{"type":"function","function":{"name":"news"}}]`
	ask := func(rounds int) string {
		return string(send(t, url, call{method: http.MethodPost, path: besidePath + "litellm/x", body: `{"input_type":"request","model":"m","texts":["How is the weather?","It is sunny."],"structured_messages":` + messages(rounds) + `,"tools":` + tools + `}`}).body)
	}
	if got := ask(3); !strings.Contains(got, `"GUARDRAIL_INTERVENED"`) || !strings.Contains(got, `"How is the weather?","It is sunny.\n\n`) || strings.Contains(got, `"tools"`) {
		t.Errorf("a hint: %s", got)
	}
	if got := ask(5); !strings.Contains(got, `"tools":[{"type":"function","function":{"name":"news"}}]`) {
		t.Errorf("a stop: %s", got)
	}
	got := string(send(t, url, call{method: http.MethodPost, path: besidePath + "agentgateway/request", body: `{"body":{"messages":` + messages(3) + `}}`, header: http.Header{"X-Session-Id": {"s"}}}).body)
	if !strings.Contains(got, `"role":"system"`) || !strings.Contains(got, `"reason":"hint"`) {
		t.Errorf("a hint of agentgateway: %s", got)
	}
}

// The examples of deploy/beside can be read, the page names them, and each caller has one that
// asks at its path.
func TestExamplesBesideGatewaysAskAtTheirPaths(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/integrations.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../beside/*/*.*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	examples := map[string]string{}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "go.") { // of the module of an example
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		examples[filepath.Base(filepath.Dir(file))] += string(text)
		if strings.HasSuffix(file, ".yaml") || strings.HasSuffix(file, ".json") {
			readable(t, file, text)
		}
		if !strings.Contains(string(page), strings.TrimPrefix(file, "../")) {
			t.Errorf("docs/integrations.md does not name %s", file)
		}
	}
	answer := send(t, start(t, echo(t)).URL(), call{method: http.MethodPost, path: besidePath + "x"})
	var unknown struct{ Error struct{ Message string } }
	if err := json.Unmarshal(answer.body, &unknown); err != nil {
		t.Fatal(err)
	}
	_, names, _ := strings.Cut(unknown.Error.Message, ": ")
	for name := range strings.SplitSeq(names, ", ") {
		if !strings.Contains(examples[name], besidePath+name) {
			t.Errorf("no example asks at %s", besidePath+name)
		}
	}
}

// readable checks that each document of a file has something in it.
func readable(t *testing.T, file string, text []byte) {
	t.Helper()
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for n := 0; ; n++ {
		var v map[string]any
		err := documents.Decode(&v)
		if errors.Is(err, io.EOF) && n > 0 {
			return
		}
		if err != nil || len(v) == 0 {
			t.Errorf("%s: %v", file, err)
			return
		}
	}
}

// nginx passes requests until their run is stopped, and passes them while Unloop is away.
func TestNginxIsClosedByAStoppedRun(t *testing.T) {
	t.Parallel()
	program := need(t, "UNLOOP_TEST_NGINX")
	s, stop := startStoppable(t, echo(t))
	listen, folder := natstest.FreeAddr(t), t.TempDir()
	config, err := os.ReadFile("../beside/nginx/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("127.0.0.1:8090", listen, "http://127.0.0.1:8080", s.URL(), "https://api.openai.com", echo(t)).Replace(string(config))
	text = "daemon off; pid " + folder + "/pid; error_log stderr;\n" + strings.Replace(text, "http {", "http { access_log off; client_body_temp_path "+folder+"/b; proxy_temp_path "+folder+"/p; fastcgi_temp_path "+folder+"/f; uwsgi_temp_path "+folder+"/u; scgi_temp_path "+folder+"/s;", 1)
	if err := os.WriteFile(filepath.Join(folder, "nginx.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	runBeside(t, listen, program, "-p", folder, "-e", "stderr", "-c", filepath.Join(folder, "nginx.conf"))
	request := prompt("Hello.")
	request.header.Set("X-Session-ID", "run-1")
	if got := send(t, "http://"+listen, request); got.status != http.StatusOK {
		t.Errorf("before: %d %s", got.status, got.body)
	}
	for range 5 {
		send(t, s.URL(), call{method: http.MethodPost, path: besidePath + "docker?session=run-1", header: request.header, body: `{"params":{"name":"search","arguments":{"q":"again"}}}`})
	}
	if got := send(t, "http://"+listen, request); got.status != http.StatusTooManyRequests || !strings.Contains(string(got.body), `"recursive_loop_detected"`) {
		t.Errorf("after: %d %s", got.status, got.body)
	}
	stop()
	if got := send(t, "http://"+listen, request); got.status != http.StatusOK {
		t.Errorf("while Unloop is away: %d %s", got.status, got.body)
	}
}

// runBeside runs a program until the test ends, and returns once it listens.
func runBeside(t *testing.T, listen, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it ends by the signal
		if t.Failed() {
			t.Log(log.String())
		}
	})
	waitPort(t, listen)
}

// waitPort waits until a program listens.
func waitPort(t *testing.T, addr string) {
	t.Helper()
	for {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
