package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// answering serves one answer to every request, and tells what came.
func answering(t *testing.T, status int, body string, header ...string) (url string, came func() (*http.Request, string)) {
	t.Helper()
	var last *http.Request
	var sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		last, sent = r, string(b)
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() (*http.Request, string) { return last, sent }
}

func TestNewWantsTheURLOfAGateway(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"http://127.0.0.1:8080":         "http://127.0.0.1:8080/unloop/v1/check",
		"http://127.0.0.1:8080/v1/":     "http://127.0.0.1:8080/unloop/v1/check",
		"https://unloop.example/prefix": "https://unloop.example/prefix/unloop/v1/check",
	} {
		c, err := New(base)
		if err != nil || c.url != want {
			t.Errorf("%s: %v, %v; want %s", base, c, err, want)
		}
	}
	for _, base := range []string{"", "127.0.0.1:8080", "localhost", "ftp://host", "http://", "http://%zz"} {
		if c, err := New(base); err == nil {
			t.Errorf("%q: accepted as %s", base, c.url)
		}
	}
}

func TestCheckSendsTheRequestAsTheCallersOwn(t *testing.T) {
	t.Parallel()
	url, came := answering(t, http.StatusOK, `{"action":"allow","hit_count":2,"request_id":"id-1","a_field_of_later":1}`)
	c, err := New(url, WithAPIKey("sk-one"), WithHeader("X-Tool-Name", "ls"), WithHTTPClient(&http.Client{}))
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Check(t.Context(), Request{
		Body: json.RawMessage(`{"a":1}`), Path: "/v1/x", Session: "s", Peek: true, Header: http.Header{"x-tool-name": {"cat"}},
	})
	if err != nil || d.Action != ActionAllow || d.HitCount != 2 || !d.Allowed() {
		t.Fatalf("decision %+v, %v", d, err)
	}
	r, body := came()
	if want := `{"path":"/v1/x","body":{"a":1},"session":"s","peek":true}`; body != want || r.Method != http.MethodPost || r.URL.Path != "/unloop/v1/check" {
		t.Errorf("sent %s %s %s, want %s", r.Method, r.URL, body, want)
	}
	if r.Header.Get("Authorization") != "Bearer sk-one" || r.Header.Get("X-Tool-Name") != "cat" || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", r.Header)
	}
	tagged := httptest.NewRequest(http.MethodPost, "/v1/x", http.NoBody)
	if d.Tag(tagged); tagged.Header.Get("X-Unloop-Check") != "id-1" {
		t.Errorf("tagged %v", tagged.Header)
	}
}

func TestDecisionsThatAreNone(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"no Unloop": `{}`, "no JSON": `hello`, "an empty body": ``} {
		url, _ := answering(t, http.StatusOK, body)
		asking, err := New(url)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := asking.Check(t.Context(), Request{Prompt: "p"}); d != nil || err == nil || !strings.Contains(err.Error(), "read the decision") {
			t.Errorf("%s: decision %+v, error %v", name, d, err)
		}
	}
}

func TestThrottleIsAllowedAfterItsDelay(t *testing.T) {
	t.Parallel()
	d := Decision{Action: ActionThrottle, DelayMS: 1500}
	if !d.Allowed() || d.Err() != nil || d.Delay() != 1500*time.Millisecond {
		t.Errorf("allowed %v, error %v, delay %s", d.Allowed(), d.Err(), d.Delay())
	}
}

const loopDetail = `{"error":"recursive_loop_detected","message":"recursive_loop_detected: again","detector":"prompt","policy":"p","fingerprint":"ab","hit_count":6,"window_seconds":60,"cooldown_seconds":30,"loop_id":"L"}`

// shapes are a loop's 429 as each provider's errors look.
var shapes = map[string]string{
	"OpenAI":    `{"error":{"message":"m","type":"rate_limit_error","param":null,"code":"recursive_loop_detected","detail":` + loopDetail + `},"detail":` + loopDetail + `}`,
	"Anthropic": `{"type":"error","error":{"type":"recursive_loop_detected","message":"m","detail":` + loopDetail + `},"detail":` + loopDetail + `}`,
	"Gemini":    `{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","detail":` + loopDetail + `},"detail":` + loopDetail + `}`,
}

func TestTransportTurnsEveryShapeIntoTheTypedError(t *testing.T) {
	t.Parallel()
	for name, body := range shapes {
		url, _ := answering(t, http.StatusTooManyRequests, body, "X-Loop-Action", "reject", "X-Loop-Reason", "loop_detected", "Retry-After", "30")
		res, err := (&http.Client{Transport: &Transport{}}).Get(url)
		if err == nil {
			_ = res.Body.Close()
			t.Fatalf("%s: no error", name)
		}
		var loop *LoopDetectedError
		if !errors.As(err, &loop) {
			t.Fatalf("%s: %v", name, err)
		}
		want := &LoopDetectedError{
			Message: "recursive_loop_detected: again", Action: ActionReject, Detector: "prompt", Policy: "p", Fingerprint: "ab",
			HitCount: 6, Window: time.Minute, Cooldown: 30 * time.Second, LoopID: "L", RetryAfter: 30 * time.Second, Body: []byte(body),
		}
		if diff := cmp.Diff(want, loop, cmpopts.IgnoreFields(LoopDetectedError{}, "Header")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if loop.Header.Get("X-Loop-Reason") != "loop_detected" {
			t.Errorf("%s: headers %v", name, loop.Header)
		}
	}
}

func TestTransportLeavesOtherAnswersAlone(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2*maxErrorBody)
	for name, c := range map[string]struct {
		status int
		body   string
		header []string
	}{
		"an answer":                       {200, shapes["OpenAI"], nil},
		"the provider's rate limit":       {429, `{"error":{"code":"rate_limit_exceeded"}}`, nil},
		"that, behind a warning":          {429, `{"error":{}}`, []string{"X-Loop-Action", "warn", "X-Loop-Reason", "loop_detected"}},
		"that, behind a throttle":         {429, ``, []string{"X-Loop-Action", "throttle", "X-Loop-Reason", "loop_detected"}},
		"a long one that is none of ours": {429, long, nil},
		"a kill switch":                   {403, `{"error":{"code":"kill_switch"}}`, nil},
	} {
		url, _ := answering(t, c.status, c.body, c.header...)
		res, err := (&http.Client{Transport: &Transport{Base: http.DefaultTransport}}).Get(url)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != c.status || string(body) != c.body {
			t.Errorf("%s: status %d, %d bytes, %v", name, res.StatusCode, len(body), err)
		}
	}
}

func TestHeadersAloneTellALoop(t *testing.T) {
	t.Parallel()
	h := http.Header{"X-Loop-Action": {"break"}, "X-Loop-Reason": {"loop_detected"}, "X-Loop-Detector": {"tool"}, "X-Loop-Count": {"9"}}
	loop := FromResponse(&http.Response{StatusCode: http.StatusTooManyRequests, Header: h, Body: io.NopCloser(strings.NewReader("replaced on the way"))})
	if loop == nil || loop.Action != ActionBreak || loop.HitCount != 9 || loop.RetryAfter != 0 || !strings.Contains(loop.Error(), "recursive_loop_detected") {
		t.Errorf("error %+v", loop)
	}
	if FromResponse(nil) != nil || FromResponse(&http.Response{StatusCode: http.StatusTooManyRequests}) != nil {
		t.Error("no answer is taken for a loop")
	}
}

func TestSDKThatRetriesGetsTheAnswerAndTheErrorBehindIt(t *testing.T) {
	t.Parallel()
	url, _ := answering(t, http.StatusTooManyRequests, shapes["OpenAI"], "X-Should-Retry", "false")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Stainless-Retry-Count", "0")
	res, err := (&http.Client{Transport: &Transport{}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	var loop *LoopDetectedError
	if !errors.As(err, &loop) || string(body) != shapes["OpenAI"] || res.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("body %s, error %v", body, err)
	}
}

func TestAnAnswerThatBreaksOffIsNotMendedByReadingIt(t *testing.T) {
	t.Parallel()
	broken := io.MultiReader(strings.NewReader(`{"error"`), errReader{})
	res := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}, Body: io.NopCloser(broken)}
	if loop := FromResponse(res); loop != nil {
		t.Errorf("a loop: %+v", loop)
	}
	if body, err := io.ReadAll(res.Body); string(body) != `{"error"` || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read %q, %v", body, err)
	}
}

// errReader breaks off.
type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestUnreachableGatewayIsAnErrorOfItsOwn(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	c, err := New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	var loop *LoopDetectedError
	if d, err := c.Check(t.Context(), Request{Prompt: "p"}); d != nil || err == nil || errors.As(err, &loop) || errors.Is(err, ErrUnchecked) {
		t.Errorf("decision %+v, error %v", d, err)
	}
}

// While the gateway is away, one run of a client asks for all of them.
func TestRunsKnowThatTheGatewayIsAway(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	c, err := New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, session := range []string{"a", "b", "c"} {
		if d := c.Run(ToolCall{Session: session}, nil).Before(t.Context(), "weather", nil); d != nil {
			t.Errorf("decision %+v", d)
		}
	}
	if asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

// FuzzParse: no answer makes the reader panic, and a loop's error has words.
func FuzzParse(f *testing.F) {
	for _, shape := range shapes {
		f.Add([]byte(shape), "reject", "30")
	}
	f.Add([]byte(`{"detail":[]}`), "break", "-1")
	f.Fuzz(func(t *testing.T, body []byte, action, after string) {
		loop := parse(http.Header{"X-Loop-Action": {action}, "X-Loop-Reason": {"loop_detected"}, "Retry-After": {after}}, body)
		if loop != nil && (loop.Error() == "" || loop.RetryAfter < 0 || loop.Window < 0) {
			t.Fatalf("%+v", loop)
		}
	})
}
