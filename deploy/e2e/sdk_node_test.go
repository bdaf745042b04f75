package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/scripted"
)

// broken are the APIs that official SDKs are tried with, each with an upstream that
// answers an error of its own. Those of Node have a script of that name in the
// sdk folder.
var broken = map[string]scripted.Script{
	"chat":      missing,
	"responses": missing,
	"anthropic": func(scripted.Request) scripted.Reply {
		return scripted.AnthropicError(http.StatusNotFound, "not_found_error", "no such model")
	},
	"gemini": func(scripted.Request) scripted.Reply {
		return scripted.GeminiError(http.StatusNotFound, "NOT_FOUND", "no such model")
	},
}

// runNode lets an SDK do a task against a base URL and returns the line that it
// prints.
func runNode(t *testing.T, url, sdk, task string, args ...string) string {
	t.Helper()
	node, modules := need(t, "UNLOOP_TEST_NODE"), need(t, "UNLOOP_TEST_NODE_MODULES")
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), node, append([]string{"sdk/run.js", sdk, task}, args...)...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "NODE_PATH=" + modules,
		"OPENAI_BASE_URL=" + url + "/v1", "OPENAI_API_KEY=sk-test",
		"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=sk-ant-test",
		"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=AIza-test",
	}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("run %s %s: %v\n%s", sdk, task, err, stderr.String())
	}
	return stdout.String()
}

func TestNodeSDKsSeeNoDifference(t *testing.T) {
	t.Parallel()
	calls := `[{"id":"call_oslo","name":"weather","arguments":{"city":"Oslo"}},{"id":"call_rome","name":"weather","arguments":{"city":"Rome"}}]`
	for sdk, fails := range broken {
		tests := map[string]struct {
			task  string
			reply scripted.Script
			want  string
		}{
			"plain":                    {"plain", greeting, `Grüß Gott 👋\n\ndata: not an event\n<b> & \"quotes\" \\  end`},
			"streamed":                 {"streamed", greeting, `<b> & \"quotes\" \\ "`},
			"tools":                    {"tools", weather, `{"plain":` + calls + `,"streamed":` + calls + `,"content":"It is sunny.","sent":3}`},
			"an error of the upstream": {"loop", fails, `no such model`},
		}
		for name, tt := range tests {
			t.Run(sdk+", "+name, func(t *testing.T) {
				t.Parallel()
				direct, behind := serve(t, tt.reply), serve(t, tt.reply)
				unloop := start(t, behind.url)
				want := runNode(t, direct.url, sdk, tt.task, "What is the weather in Oslo and Rome?", "1")
				got := runNode(t, unloop.URL(), sdk, tt.task, "What is the weather in Oslo and Rome?", "1")
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("what the client sees (-direct +through Unloop):\n%s", diff)
				}
				if !strings.Contains(got, tt.want) {
					t.Errorf("got %s, want %s in it", got, tt.want)
				}
				compareRequests(t, direct, behind)
			})
		}
	}
}

// compareRequests expects both upstreams to have seen the same.
func compareRequests(t *testing.T, direct, behind served) {
	t.Helper()
	for _, host := range hosts(behind.Requests()) {
		if host != behind.url {
			t.Errorf("the upstream was asked for %s, want %s", host, behind.url)
		}
	}
	if diff := cmp.Diff(withoutHops(direct.Requests()), withoutHops(behind.Requests())); diff != "" {
		t.Errorf("what the upstream sees (-direct +through Unloop):\n%s", diff)
	}
}

func TestNodeSDKsAbortMidStream(t *testing.T) {
	t.Parallel()
	for sdk := range broken {
		t.Run(sdk, func(t *testing.T) {
			t.Parallel()
			upstream := serve(t, forever)
			unloop := start(t, upstream.url)
			if got, want := runNode(t, unloop.URL(), sdk, "abort", "Tell me everything."), `{"pieces":["first"],"sent":1}`+"\n"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if _, err := upstream.WaitLeft(t.Context(), 1); err != nil {
				t.Errorf("the upstream call went on: %v", err)
			}
		})
	}
}

// loopSeen is what the loop tasks print.
type loopSeen struct {
	Answered int         `json:"answered"`
	Sent     int         `json:"sent"`
	Errors   []loopError `json:"errors"`
}

type loopError struct {
	RateLimitError bool              `json:"rate_limit_error"`
	Status         int               `json:"status"`
	Code           string            `json:"code"`
	Text           string            `json:"text"`
	Detail         loopDetail        `json:"detail"`
	Headers        map[string]string `json:"headers"`
	// Typed is what Unloop's SDK finds behind the error; nil where it was not asked.
	Typed *typedError `json:"typed"`
}

type typedError struct {
	Action            string `json:"action"`
	Detector          string `json:"detector"`
	Policy            string `json:"policy"`
	Fingerprint       string `json:"fingerprint"`
	HitCount          int    `json:"hit_count"`
	WindowSeconds     int    `json:"window_seconds"`
	CooldownSeconds   int    `json:"cooldown_seconds"`
	LoopID            string `json:"loop_id"`
	RetryAfterSeconds int    `json:"retry_after_seconds"`
}

// loopDetail is the part of the error that says what was found.
type loopDetail struct {
	Error           string `json:"error"`
	Message         string `json:"message"`
	Detector        string `json:"detector"`
	Policy          string `json:"policy"`
	Fingerprint     string `json:"fingerprint"`
	HitCount        int    `json:"hit_count"`
	WindowSeconds   int    `json:"window_seconds"`
	CooldownSeconds int    `json:"cooldown_seconds"`
	LoopID          string `json:"loop_id"`
}

func TestNodeSDKsRaiseTheirRateLimitErrorOfALoopWithoutRetries(t *testing.T) {
	t.Parallel()
	for sdk := range broken {
		for _, task := range []string{"loop", "loopStreamed"} {
			t.Run(sdk+", "+task, func(t *testing.T) {
				t.Parallel()
				upstream := serve(t, greeting)
				unloop := start(t, upstream.url)
				var got loopSeen
				if err := json.Unmarshal([]byte(runNode(t, unloop.URL(), sdk, task, "Are we there yet?", "6")), &got); err != nil {
					t.Fatal(err)
				}
				if got.Answered != 5 || got.Sent != 6 || len(got.Errors) != 1 {
					t.Fatalf("answered %d of %d sent with %d errors, want 5 of 6 with 1", got.Answered, got.Sent, len(got.Errors))
				}
				if n := len(upstream.Requests()); n != 5 {
					t.Errorf("the upstream saw %d requests, want 5", n)
				}
				checkLoopError(t, got.Errors[0])
				if got.Errors[0].Typed == nil {
					t.Error("Unloop's SDK finds no loop behind the error")
				}
			})
		}
	}
}

// checkLoopError expects the sixth request's error under the default policy. Nil
// headers are of an SDK that does not show them.
func checkLoopError(t *testing.T, got loopError) {
	t.Helper()
	const says = "Stopped by Unloop: the same prompt 6 times within 60 seconds (recursive_loop_detected; detector prompt, policy default)."
	if !strings.Contains(got.Text, says) || !strings.Contains(got.Text, "unloop loops release "+got.Detail.LoopID) {
		t.Errorf("the error's text is %q, want %q and the loop's id in it", got.Text, says)
	}
	if got.Detail.Policy == "" || got.Detail.Fingerprint == "" || got.Detail.LoopID == "" {
		t.Errorf("the detail lacks something: %+v", got.Detail)
	}
	want := loopError{
		RateLimitError: true, Status: 429, Code: "recursive_loop_detected", Text: got.Text,
		Detail: loopDetail{
			Error: "recursive_loop_detected", Message: got.Detail.Message, Detector: "prompt", Policy: got.Detail.Policy,
			Fingerprint: got.Detail.Fingerprint, HitCount: 6, WindowSeconds: 60, CooldownSeconds: 30, LoopID: got.Detail.LoopID,
		},
	}
	if got.Typed != nil {
		want.Typed = &typedError{
			Action: "reject", Detector: "prompt", Policy: got.Detail.Policy, Fingerprint: got.Detail.Fingerprint, HitCount: 6,
			WindowSeconds: 60, CooldownSeconds: 30, LoopID: got.Detail.LoopID, RetryAfterSeconds: got.Typed.RetryAfterSeconds,
		}
	}
	if got.Headers != nil {
		if wait, err := strconv.Atoi(got.Headers["retry-after"]); err != nil || !truly(wait) {
			t.Errorf("retry after %q", got.Headers["retry-after"])
		}
		want.Headers = map[string]string{
			"retry-after": got.Headers["retry-after"], "x-should-retry": "false", "x-loop-action": "reject",
			"x-loop-reason": "loop_detected", "x-loop-detector": "prompt", "x-loop-count": "6",
		}
	}
	got.Code = strings.ToLower(got.Code) // Google's codes are in capitals
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}
