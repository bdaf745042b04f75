//go:build sdks

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/unloop/unloop/schemas/client"
)

// goChat is OpenAI's SDK with Chat Completions.
type goChat struct{ openai.Client }

func newGoChat(_ *testing.T, url string, via *http.Client) goSDK {
	return goChat{openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("sk-test"), option.WithHTTPClient(via))}
}

// question is a request of one user message.
func question(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    "scripted-1",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}

func (c goChat) plain(ctx context.Context, text string) (string, error) {
	completion, err := c.Chat.Completions.New(ctx, question(text))
	if err != nil {
		return "", err
	}
	return completion.RawJSON(), nil
}

func (c goChat) stream(ctx context.Context, text string, each func(string)) (string, error) {
	params := question(text)
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := c.Chat.Completions.NewStreaming(ctx, params)
	var chunks strings.Builder
	for stream.Next() {
		chunk := stream.Current()
		chunks.WriteString(chunk.RawJSON() + "\n")
		if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
			each(chunk.Choices[0].Delta.Content)
		}
	}
	return chunks.String(), stream.Err()
}

func (c goChat) tools(ctx context.Context, text string) (string, error) {
	params := question(text)
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "weather"})}
	stream := c.Chat.Completions.NewStreaming(ctx, params)
	var called openai.ChatCompletionAccumulator
	for stream.Next() {
		called.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		return "", err
	}
	message := called.Choices[0].Message
	params.Messages = append(params.Messages, message.ToParam())
	var lines strings.Builder
	for _, call := range message.ToolCalls {
		lines.WriteString(calledLine(call.ID, call.Function.Name, call.Function.Arguments))
		params.Messages = append(params.Messages, openai.ToolMessage("sunny", call.ID))
	}
	answer, err := c.Chat.Completions.New(ctx, params)
	if err != nil {
		return "", err
	}
	return lines.String() + answer.Choices[0].Message.Content, nil
}

func (goChat) seen(err error) (loopError, bool) { return openaiSeen(err) }

// openaiSeen reads an error of OpenAI's SDK. Its Error method shows the status
// alone; the word and the detail are in its fields.
func openaiSeen(err error) (loopError, bool) {
	var api *openai.Error
	if !errors.As(err, &api) {
		return loopError{}, false
	}
	seen := loopError{
		RateLimitError: api.StatusCode == http.StatusTooManyRequests, Status: api.StatusCode, Code: api.Code, Text: api.Message,
		Headers: loopHeaders(api.Response.Header),
	}
	if raw := api.JSON.ExtraFields["detail"].Raw(); raw != "" && json.Unmarshal([]byte(raw), &seen.Detail) != nil {
		return seen, false
	}
	return seen, true
}

func TestOfficialGoSDKWithTheTransportRaisesTheTypedErrorWithoutRetries(t *testing.T) {
	t.Parallel()
	upstream := serve(t, greeting)
	s := start(t, upstream.url)
	sent := &counted{}
	sdk := openai.NewClient(option.WithBaseURL(s.URL()+"/v1"), option.WithAPIKey("sk-test"),
		option.WithHTTPClient(&http.Client{Transport: &client.Transport{Base: sent}}))
	for i := range 5 {
		if _, err := sdk.Chat.Completions.New(t.Context(), question("again")); err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
	}
	_, err := sdk.Chat.Completions.New(t.Context(), question("again"))
	isPromptLoop(t, err)
	stream := sdk.Chat.Completions.NewStreaming(t.Context(), question("again"))
	var loop *client.LoopDetectedError
	if stream.Next() || !errors.As(stream.Err(), &loop) {
		t.Errorf("streamed: %v", stream.Err())
	}
	if sent.sent.Load() != 7 {
		t.Errorf("%d requests sent, want 7: none is tried again", sent.sent.Load())
	}
}
