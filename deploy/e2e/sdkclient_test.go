package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas/client"
)

// isPromptLoop checks what the default policy says of a sixth prompt.
func isPromptLoop(t *testing.T, err error) {
	t.Helper()
	var loop *client.LoopDetectedError
	if !errors.As(err, &loop) {
		t.Fatalf("got %v, want a LoopDetectedError", err)
	}
	if loop.HitCount != 6 || loop.Window != time.Minute || loop.Cooldown != 30*time.Second || !truly(int(loop.RetryAfter/time.Second)) ||
		len(loop.Fingerprint) != 64 || loop.LoopID == "" || loop.Detector != "prompt" || loop.Policy != "default" || loop.Action != client.ActionReject {
		t.Errorf("error %+v", loop)
	}
}

func TestGoClientSeesALoopAsATypedError(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t))
	toAnthropic := start(t, echo(t), func(cfg *system.Config) { cfg.Gateway.Upstream["anthropic"] = cfg.Gateway.Upstream["openai"] })
	llm := &http.Client{Transport: &client.Transport{}}
	for name, c := range map[string]struct{ url, body string }{
		"OpenAI":    {s.URL() + "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"again"}]}`},
		"Anthropic": {toAnthropic.URL() + "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"again"}]}`},
	} {
		var err error
		for n := range 6 {
			var res *http.Response
			if res, err = llm.Post(c.url, "application/json", strings.NewReader(c.body)); err != nil {
				if n != 5 {
					t.Fatalf("%s, request %d: %v", name, n+1, err)
				}
				break
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		isPromptLoop(t, err)
	}
}

func TestGoClientChecksBeforeItSends(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t))
	guard, err := client.New(s.URL()+"/v1", client.WithAPIKey("sk-one"))
	if err != nil {
		t.Fatal(err)
	}
	body := `{"model":"m","messages":[{"role":"user","content":"again"}]}`
	question := client.Request{Path: "/v1/chat/completions", Body: json.RawMessage(body)}
	for n := 1; n <= 5; n++ {
		d, err := guard.Check(t.Context(), question)
		if err != nil || d.HitCount != n {
			t.Fatalf("check %d: %+v, %v", n, d, err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer sk-one")
		d.Tag(req)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
			t.Fatalf("request %d: status %d", n, res.StatusCode)
		}
	}
	peek := client.Request{Prompt: "again", Model: "m", Peek: true}
	d, err := guard.Check(t.Context(), peek)
	var loop *client.LoopDetectedError
	if !errors.As(err, &loop) || d.LoopID != "" {
		t.Fatalf("peek at the sixth: %+v, %v", d, err)
	}
	_, err = guard.Check(t.Context(), question)
	isPromptLoop(t, err)
	var fault *client.Error
	if _, err = guard.Check(t.Context(), client.Request{}); !errors.As(err, &fault) || fault.Field != "body" {
		t.Errorf("a check of nothing: %v", err)
	}
}
