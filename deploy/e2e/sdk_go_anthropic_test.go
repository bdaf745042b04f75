//go:build sdks

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// goAnthropic is Anthropic's SDK with the Messages API.
type goAnthropic struct{ anthropic.Client }

func newGoAnthropic(_ *testing.T, url string, via *http.Client) goSDK {
	return goAnthropic{anthropic.NewClient(option.WithBaseURL(url), option.WithAPIKey("sk-ant-test"), option.WithHTTPClient(via))}
}

func (goAnthropic) ask(question string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: "scripted-1", MaxTokens: 256,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(question))},
	}
}

func (c goAnthropic) plain(ctx context.Context, question string) (string, error) {
	message, err := c.Messages.New(ctx, c.ask(question))
	if err != nil {
		return "", err
	}
	return message.RawJSON(), nil
}

func (c goAnthropic) stream(ctx context.Context, question string, each func(string)) (string, error) {
	stream := c.Messages.NewStreaming(ctx, c.ask(question))
	var events strings.Builder
	for stream.Next() {
		event := stream.Current()
		events.WriteString(event.RawJSON() + "\n")
		if event.Delta.Text != "" {
			each(event.Delta.Text)
		}
	}
	return events.String(), stream.Err()
}

func (c goAnthropic) tools(ctx context.Context, question string) (string, error) {
	params := c.ask(question)
	params.Tools = []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{}, "weather")}
	stream := c.Messages.NewStreaming(ctx, params)
	var called anthropic.Message
	for stream.Next() {
		if err := called.Accumulate(stream.Current()); err != nil {
			return "", err
		}
	}
	if err := stream.Err(); err != nil {
		return "", err
	}
	var lines strings.Builder
	var results []anthropic.ContentBlockParamUnion
	for _, block := range called.Content {
		call := block.AsToolUse()
		lines.WriteString(calledLine(call.ID, call.Name, string(call.Input)))
		results = append(results, anthropic.NewToolResultBlock(call.ID, "sunny", false))
	}
	params.Messages = append(params.Messages, called.ToParam(), anthropic.NewUserMessage(results...))
	answer, err := c.Messages.New(ctx, params)
	if err != nil {
		return "", err
	}
	return lines.String() + answer.Content[0].Text, nil
}

// seen reads an error, whose text holds the answer's body.
func (goAnthropic) seen(err error) (loopError, bool) {
	var api *anthropic.Error
	if !errors.As(err, &api) {
		return loopError{}, false
	}
	var body struct {
		Error struct {
			Code   string
			Detail loopDetail
		}
	}
	if json.Unmarshal([]byte(api.RawJSON()), &body) != nil {
		return loopError{}, false
	}
	_, text, _ := strings.Cut(api.Error(), `": `) // the address before it differs
	return loopError{
		RateLimitError: api.Type() == "rate_limit_error", Status: api.StatusCode, Code: body.Error.Code, Text: text,
		Detail: body.Error.Detail, Headers: loopHeaders(api.Response.Header),
	}, true
}
