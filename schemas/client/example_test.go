package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/unloop/unloop/schemas/client"
)

// gateway stands for an Unloop gateway that has seen enough.
func gateway() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/unloop/v1/check" {
			_ = json.NewEncoder(w).Encode(client.Decision{Action: client.ActionThrottle, HitCount: 4, DelayMS: 400, RequestID: "r-1"})
			return
		}
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"detail":{"error":"recursive_loop_detected","message":"recursive_loop_detected: seen 6 times","hit_count":6,"cooldown_seconds":30}}`))
	}))
}

func ExampleTransport() {
	unloop := gateway()
	defer unloop.Close()
	llm := &http.Client{Transport: &client.Transport{}}

	res, err := llm.Post(unloop.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{}`))
	var loop *client.LoopDetectedError
	switch {
	case errors.As(err, &loop):
		fmt.Printf("going in circles: %d times, again in %s\n", loop.HitCount, loop.RetryAfter)
	case err == nil:
		_ = res.Body.Close()
	}
	// Output: going in circles: 6 times, again in 30s
}

func ExampleClient_Check() {
	unloop := gateway()
	defer unloop.Close()
	guard, err := client.New(unloop.URL, client.WithAPIKey("sk-agent"))
	if err != nil {
		fmt.Println(err)
		return
	}

	decision, err := guard.Check(context.Background(), client.Request{
		Path: "/tools/search", Body: json.RawMessage(`{"query":"unloop"}`), Session: "job-17",
	})
	if err != nil {
		fmt.Println("not sent:", err)
		return
	}
	fmt.Println(decision.Action, decision.HitCount, "times, after", decision.Delay())
	// Output: throttle 4 times, after 400ms
}
