package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/scripted"
)

// answers are the answers to repetitions of a call from the first that was stopped on: the
// statuses of errors, and synthetic for those in the model's place.
func answers(t *testing.T, url string, c call, n int) []string {
	t.Helper()
	var out []string
	for tries := 0; len(out) < n && tries < 30; tries++ {
		a := send(t, url, c)
		switch {
		case a.header.Get("X-Loop-Answer") != "":
			out = append(out, a.header.Get("X-Loop-Answer"))
		case a.header.Get("X-Loop-Action") == "reject" || a.header.Get("X-Loop-Action") == "break":
			out = append(out, fmt.Sprint(a.status))
		}
	}
	return out
}

// repeated are repetitions that the detector of a policy stops.
var repeated = map[string]struct {
	spec string
	call call
}{
	"prompt":  {"prompt: {}", chat(toolSession(1, always("{}"), always("same")))},
	"request": {"loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 3}", chat(toolSession(1, always("{}"), always("same")))},
	"tool":    {"tool: {}", chat(toolSession(5, always("{}"), always("same")))},
}

func TestPoliciesChooseTheAnswerOfEveryDetector(t *testing.T) {
	t.Parallel()
	for detector, c := range repeated {
		for reject, want := range map[string][]string{
			"":          {"429", "400", "synthetic", "synthetic"}, // an agent that is not known
			"429":       {"429", "429", "429", "429"},
			"403":       {"403", "403", "403", "403"},
			"synthetic": {"synthetic", "synthetic", "synthetic", "synthetic"},
		} {
			t.Run(detector+" "+reject, func(t *testing.T) {
				t.Parallel()
				spec := "{" + c.spec + "}"
				if detector == "request" && reject == "" {
					want = []string{"429", "400", "400", "400"} // no detector reads the prompt's tools
				}
				if reject != "" {
					spec = "{reject: " + reject + ", " + c.spec + "}"
				}
				url := start(t, serve(t, greeting).url, rejectAuto, policies(t, "bundle_version: 1\npolicies: [{id: p, spec: "+spec+"}]\n")).URL()
				if diff := cmp.Diff(want, answers(t, url, c.call, len(want))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A prompt that grows by the same words is found by its meaning.
func TestPoliciesChooseTheAnswerOfTheSemanticDetector(t *testing.T) {
	t.Parallel()
	for reject, want := range map[string]string{"429": "429 ", "403": "403 ", "synthetic": "200 synthetic"} {
		t.Run(reject, func(t *testing.T) {
			t.Parallel()
			spec := "{reject: " + reject + ", semantic: {budget_ms: 20000, reject_after: 8}}"
			url := start(t, serve(t, greeting).url, rejectAuto, policies(t, "bundle_version: 1\npolicies: [{id: p, spec: "+spec+"}]\n")).URL()
			var last answered
			text := "Extract the vendor, the currency and the total amount from the attached invoice and return them as one JSON object."
			for range 15 {
				if last = send(t, url, prompt(text)); last.header.Get("X-Loop-Action") == "reject" {
					break
				}
				text = "That wasn't valid JSON. Try again: " + text
			}
			if got := fmt.Sprint(last.status, " ", last.header.Get("X-Loop-Answer")); got != want || last.header.Get("X-Loop-Detector") != "semantic" {
				t.Errorf("%s by %s, want %s", got, last.header.Get("X-Loop-Detector"), want)
			}
		})
	}
}

func TestClientsGetWhatEndsThem(t *testing.T) {
	t.Parallel()
	url := start(t, serve(t, greeting).url, rejectAuto).URL()
	agent := chat(toolSession(5, always("{}"), always("same")))
	data := chat(in(toolSession(5, always("{}"), always("same")), `"response_format":{"type":"json_object"}`))
	for name, c := range map[string]struct {
		call  call
		agent string
		want  []string
	}{
		"an SDK that heeds what it is told": {agent, "OpenAI/JS 7.55.0", []string{"429", "400", "synthetic"}},
		"one that retries a 429":            {agent, "ai/7.0.173 node.js/20", []string{"400", "synthetic", "synthetic"}},
		"an unknown agent that wants data":  {data, "acme/1", []string{"429", "400", "400"}},
		"an unknown client without tools":   {prompt("again and again"), "curl/8", []string{"429", "400", "400"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := answers(t, url, c.call.with("Authorization", "Bearer sk-"+name).with("User-Agent", c.agent), len(c.want))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A repetition that is answered from memory, byte for byte, has the form that its request
// asks for.
func TestAnswersFromMemoryHaveTheFormOfTheRequest(t *testing.T) {
	t.Parallel()
	policy := policies(t, "bundle_version: 1\npolicies: [{id: p, spec: {reject: synthetic, prompt: {}}}]\n")
	s := start(t, serve(t, greeting).url, rejectAuto, policy)
	for stream, kind := range map[string]string{"true": "text/event-stream; charset=utf-8", "false": "application/json"} {
		c := chat(in(toolSession(1, always("{}"), always("same")), `"stream":`+stream)).with("Authorization", "Bearer sk-"+stream)
		answers(t, s.URL(), c, 1)
		for range 3 {
			a := send(t, s.URL(), c)
			if a.status != http.StatusOK || a.header.Get("X-Loop-Answer") != "synthetic" || a.header.Get("Content-Type") != kind ||
				!strings.Contains(string(a.body), `"model":"m"`) || !strings.Contains(string(a.body), "Stopped by Unloop: the same prompt") {
				t.Errorf("stream %s: %d %v %s", stream, a.status, a.header, a.body)
			}
		}
	}
	if n := metric(t, s, `unloop_gateway_rejected_total{answer="synthetic",client="unknown"}`); n < 8 {
		t.Errorf("%v rejects are counted", n)
	}
}

func TestStrongerAnswersKeepTheErrorsShape(t *testing.T) {
	t.Parallel()
	url := start(t, serve(t, greeting).url, rejectAuto).URL()
	c := prompt("again")
	answers(t, url, c, 1)
	a := send(t, url, c)
	r := a.refusal(t)
	if a.status != http.StatusBadRequest || r.Error.Code != "recursive_loop_detected" || r.Detail.HitCount != 7 ||
		a.header.Get("Retry-After") == "" || a.header.Get("X-Should-Retry") != "false" || !strings.Contains(string(a.body), "invalid_request_error") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}

// Codex asks for the Responses API over WebSocket first. Its frames would pass unread.
func TestResponsesOverWebSocketAreSentBackToHTTP(t *testing.T) {
	t.Parallel()
	upstream := serve(t, func(scripted.Request) scripted.Reply { return scripted.Text("no") })
	url := start(t, upstream.url).URL()
	for _, path := range []string{"/v1/responses", "/openai/v1/responses?x=1"} {
		_, res, err := websocket.Dial(t.Context(), url+path, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer sk-one"}}})
		if err == nil || res == nil || res.StatusCode != http.StatusUpgradeRequired || res.Header.Get("Upgrade") == "" {
			t.Fatalf("%s: %v, %+v", path, err, res)
		}
		var answer struct {
			Error struct{ Code, Message string }
		}
		if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || answer.Error.Code != "websocket_not_supported" || !strings.Contains(answer.Error.Message, "POST") {
			t.Errorf("%s: %v, %+v", path, err, answer)
		}
		_ = res.Body.Close()
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url+"/v1/responses", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if n := len(upstream.Requests()); n != 1 || res.StatusCode == http.StatusUpgradeRequired {
		t.Errorf("a plain GET was answered with %d; the upstream saw %d requests", res.StatusCode, n)
	}
}
