package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/unloop/unloop/deploy/internal/scripted"
)

// goSDK is a client of the official Go SDK, with its usual retries.
type goSDK struct {
	openai.Client
	// sent counts the requests that left, retries among them.
	sent atomic.Int64
}

func newGoSDK(url string) *goSDK {
	sdk := &goSDK{}
	sdk.Client = openai.NewClient(
		option.WithBaseURL(url+"/v1"),
		option.WithAPIKey("sk-test"),
		option.WithMiddleware(func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			sdk.sent.Add(1)
			return next(req)
		}),
	)
	return sdk
}

func question(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    "scripted-1",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}

// plainAnswer is a plain completion, as the SDK received it.
func plainAnswer(ctx context.Context, sdk *goSDK) (string, error) {
	completion, err := sdk.Chat.Completions.New(ctx, question("How are you?"))
	if err != nil {
		return "", err
	}
	return completion.RawJSON(), nil
}

// streamedAnswer is every chunk of a streamed completion.
func streamedAnswer(ctx context.Context, sdk *goSDK) (string, error) {
	params := question("How are you?")
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := sdk.Chat.Completions.NewStreaming(ctx, params)
	var chunks strings.Builder
	for stream.Next() {
		chunk := stream.Current()
		fmt.Fprintln(&chunks, chunk.RawJSON())
	}
	return chunks.String(), stream.Err()
}

// toolRound is a round of tool calls, streamed, and the answer to it.
func toolRound(ctx context.Context, sdk *goSDK) (string, error) {
	params := question("What is the weather?")
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "weather"})}
	stream := sdk.Chat.Completions.NewStreaming(ctx, params)
	var called openai.ChatCompletionAccumulator
	for stream.Next() {
		called.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		return "", err
	}
	message := called.Choices[0].Message
	params.Messages = append(params.Messages, message.ToParam())
	var calls strings.Builder
	for _, call := range message.ToolCalls {
		fmt.Fprintf(&calls, "%s %s(%s)\n", call.ID, call.Function.Name, call.Function.Arguments)
		params.Messages = append(params.Messages, openai.ToolMessage("sunny", call.ID))
	}
	answer, err := sdk.Chat.Completions.New(ctx, params)
	if err != nil {
		return "", err
	}
	return calls.String() + answer.Choices[0].Message.Content, nil
}

// upstreamError is what the SDK says of an error that the upstream answers.
func upstreamError(ctx context.Context, sdk *goSDK) (string, error) {
	_, err := sdk.Chat.Completions.New(ctx, question("How are you?"))
	var api *openai.Error
	if !errors.As(err, &api) {
		return "", fmt.Errorf("want an error of the API, got: %w", err)
	}
	return fmt.Sprintf("%d %s", api.StatusCode, api.RawJSON()), nil
}

func TestGoSDKSeesNoDifference(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script scripted.Script
		ask    func(context.Context, *goSDK) (string, error)
		want   string
	}{
		"plain":                    {greeting, plainAnswer, `"finish_reason":"stop"`},
		"streamed":                 {greeting, streamedAnswer, `"content":"Gott 👋\n\n"`},
		"tools":                    {weather, toolRound, "call_rome weather({\"city\":\"Rome\"})\nIt is sunny."},
		"an error of the upstream": {missing, upstreamError, "404 {"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct, behind := serve(t, tt.script), serve(t, tt.script)
			unloop := start(t, behind.url)
			want, err := tt.ask(t.Context(), newGoSDK(direct.url))
			if err != nil {
				t.Fatalf("ask the upstream itself: %v", err)
			}
			got, err := tt.ask(t.Context(), newGoSDK(unloop.URL()))
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

func TestGoSDKAbortsMidStream(t *testing.T) {
	t.Parallel()
	upstream := serve(t, forever)
	sdk := newGoSDK(start(t, upstream.url).URL())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream := sdk.Chat.Completions.NewStreaming(ctx, question("Tell me everything."))
	for stream.Next() {
		if stream.Current().Choices[0].Delta.Content == "first" {
			cancel()
		}
	}
	if err := stream.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("the stream ended with %v, want context.Canceled", err)
	}
	if _, err := upstream.WaitLeft(t.Context(), 1); err != nil {
		t.Errorf("the upstream call went on: %v", err)
	}
}

// The SDK's Error method shows the status alone; the word and the detail are
// in its fields.
func TestGoSDKRaisesOneErrorOfALoopWithoutRetries(t *testing.T) {
	t.Parallel()
	upstream := serve(t, greeting)
	sdk := newGoSDK(start(t, upstream.url).URL())
	for i := range 5 {
		if _, err := sdk.Chat.Completions.New(t.Context(), question("Are we there yet?")); err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
	}
	_, err := sdk.Chat.Completions.New(t.Context(), question("Are we there yet?"))
	var api *openai.Error
	if !errors.As(err, &api) {
		t.Fatalf("got %v, want an error of the API", err)
	}
	if sent, seen := sdk.sent.Load(), len(upstream.Requests()); sent != 6 || seen != 5 {
		t.Errorf("%d requests sent and %d seen by the upstream, want 6 and 5", sent, seen)
	}
	got := loopError{
		RateLimitError: api.StatusCode == http.StatusTooManyRequests, Status: api.StatusCode, Code: api.Code, Text: api.Message,
		Headers: map[string]string{},
	}
	if err := json.Unmarshal([]byte(api.JSON.ExtraFields["detail"].Raw()), &got.Detail); err != nil {
		t.Errorf("read the detail: %v", err)
	}
	for _, name := range []string{"retry-after", "x-should-retry", "x-loop-action", "x-loop-reason", "x-loop-detector", "x-loop-count"} {
		got.Headers[name] = api.Response.Header.Get(name)
	}
	checkLoopError(t, got)
}
