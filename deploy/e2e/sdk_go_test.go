//go:build sdks

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/scripted"
)

// goSDK is an official Go SDK with one of its APIs, with its usual retries.
type goSDK interface {
	// plain is an answer, as the SDK shows it.
	plain(ctx context.Context, question string) (string, error)
	// stream is a streamed answer. Each is called with the pieces as they come.
	stream(ctx context.Context, question string, each func(piece string)) (string, error)
	// tools is what a streamed round of tool calls asks for, and the answer to it.
	tools(ctx context.Context, question string) (string, error)
	// agent is what an agent ends with that calls tools until the model asks for
	// none.
	agent(ctx context.Context, question string, streamed bool) (ended, error)
	// seen is what a caller can read from the SDK's own type of error; false if it
	// is none.
	seen(err error) (loopError, bool)
}

// goSDKs make a client for a base URL.
var goSDKs = map[string]func(t *testing.T, url string, via *http.Client) goSDK{
	"chat":      newGoChat,
	"responses": newGoResponses,
	"anthropic": newGoAnthropic,
	"gemini":    newGoGemini,
}

// counted is a transport that counts the requests that leave, retries among them.
type counted struct{ sent atomic.Int64 }

// RoundTrip implements http.RoundTripper.
func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	return http.DefaultTransport.RoundTrip(r)
}

func TestGoSDKsSeeNoDifference(t *testing.T) {
	t.Parallel()
	const ask = "What is the weather in Oslo and Rome?"
	for name, connect := range goSDKs {
		tests := map[string]struct {
			script scripted.Script
			task   func(goSDK) (string, error)
			want   string
		}{
			"plain": {greeting, func(s goSDK) (string, error) { return s.plain(t.Context(), ask) }, `data: not an event\n`},
			"streamed": {greeting, func(s goSDK) (string, error) {
				return s.stream(t.Context(), ask, func(string) {})
			}, `Gott 👋\n\n`},
			"tools": {weather, func(s goSDK) (string, error) { return s.tools(t.Context(), ask) }, "call_oslo weather({\"city\":\"Oslo\"})\ncall_rome weather({\"city\":\"Rome\"})\nIt is sunny."},
			"an error of the upstream": {broken[name], func(s goSDK) (string, error) {
				_, err := s.plain(t.Context(), ask)
				seen, ok := s.seen(err)
				if !ok {
					return "", fmt.Errorf("want an error of the API, got: %w", err)
				}
				return fmt.Sprintf("%+v", seen), nil
			}, "no such model"},
		}
		for task, tt := range tests {
			t.Run(name+", "+task, func(t *testing.T) {
				t.Parallel()
				direct, behind := serve(t, tt.script), serve(t, tt.script)
				unloop := start(t, behind.url)
				want, err := tt.task(connect(t, direct.url, &http.Client{}))
				if err != nil {
					t.Fatalf("ask the upstream itself: %v", err)
				}
				got, err := tt.task(connect(t, unloop.URL(), &http.Client{}))
				if err != nil {
					t.Fatalf("ask through Unloop: %v", err)
				}
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

func TestGoSDKsAbortMidStream(t *testing.T) {
	t.Parallel()
	for name, connect := range goSDKs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := serve(t, forever)
			sdk := connect(t, start(t, upstream.url).URL(), &http.Client{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var pieces []string
			_, err := sdk.stream(ctx, "Tell me everything.", func(piece string) {
				pieces = append(pieces, piece)
				cancel()
			})
			// Google's SDK ends the stream without a word.
			if err != nil && !errors.Is(err, context.Canceled) || ctx.Err() == nil {
				t.Errorf("the stream ended with %v, want context.Canceled", err)
			}
			if diff := cmp.Diff([]string{"first"}, pieces); diff != "" {
				t.Errorf("pieces (-want +got):\n%s", diff)
			}
			if _, err := upstream.WaitLeft(t.Context(), 1); err != nil {
				t.Errorf("the upstream call went on: %v", err)
			}
		})
	}
}

func TestGoSDKsRaiseOneErrorOfALoopWithoutRetries(t *testing.T) {
	t.Parallel()
	for name, connect := range goSDKs {
		for kind, ask := range map[string]func(goSDK) error{
			"plain": func(s goSDK) error {
				_, err := s.plain(t.Context(), "Are we there yet?")
				return err
			},
			"streamed": func(s goSDK) error {
				_, err := s.stream(t.Context(), "Are we there yet?", func(string) {})
				return err
			},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				upstream, wire := serve(t, greeting), &counted{}
				sdk := connect(t, start(t, upstream.url).URL(), &http.Client{Transport: wire})
				for i := range 5 {
					if err := ask(sdk); err != nil {
						t.Fatalf("request %d: %v", i+1, err)
					}
				}
				err := ask(sdk)
				got, ok := sdk.seen(err)
				if !ok {
					t.Fatalf("got %v, want an error of the API", err)
				}
				if sent, seen := wire.sent.Load(), len(upstream.Requests()); sent != 6 || seen != 5 {
					t.Errorf("%d requests sent and %d seen by the upstream, want 6 and 5", sent, seen)
				}
				checkLoopError(t, got)
			})
		}
	}
}

// calledLine is a tool call that a model asked for.
func calledLine(id, name, arguments string) string {
	return fmt.Sprintf("%s %s(%s)\n", id, name, arguments)
}

// loopHeaders are the headers that say what was found.
func loopHeaders(h http.Header) map[string]string {
	shown := map[string]string{}
	for _, name := range []string{"retry-after", "x-should-retry", "x-loop-action", "x-loop-reason", "x-loop-detector", "x-loop-count"} {
		shown[name] = h.Get(name)
	}
	return shown
}
