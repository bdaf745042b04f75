//go:build sdks

package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	items "github.com/openai/openai-go/v3/responses"
)

// goResponses is OpenAI's SDK with the Responses API.
type goResponses struct{ openai.Client }

func newGoResponses(_ *testing.T, url string, via *http.Client) goSDK {
	return goResponses{openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("sk-test"), option.WithHTTPClient(via))}
}

func (goResponses) ask(history ...items.ResponseInputItemUnionParam) items.ResponseNewParams {
	return items.ResponseNewParams{Model: "scripted-1", Input: items.ResponseNewParamsInputUnion{OfInputItemList: history}}
}

func userItem(question string) items.ResponseInputItemUnionParam {
	return items.ResponseInputItemParamOfMessage(question, items.EasyInputMessageRoleUser)
}

func (c goResponses) plain(ctx context.Context, question string) (string, error) {
	response, err := c.Responses.New(ctx, c.ask(userItem(question)))
	if err != nil {
		return "", err
	}
	return response.RawJSON(), nil
}

func (c goResponses) stream(ctx context.Context, question string, each func(string)) (string, error) {
	stream := c.Responses.NewStreaming(ctx, c.ask(userItem(question)))
	var events strings.Builder
	for stream.Next() {
		event := stream.Current()
		events.WriteString(event.RawJSON() + "\n")
		if event.Type == "response.output_text.delta" {
			each(event.Delta)
		}
	}
	return events.String(), stream.Err()
}

func (c goResponses) tools(ctx context.Context, question string) (string, error) {
	params := c.ask(userItem(question))
	params.Tools = []items.ToolUnionParam{items.ToolParamOfFunction("weather", map[string]any{"type": "object"}, false)}
	stream := c.Responses.NewStreaming(ctx, params)
	var called items.Response
	for stream.Next() {
		if event := stream.Current(); event.Type == "response.completed" {
			called = event.Response
		}
	}
	if err := stream.Err(); err != nil {
		return "", err
	}
	var lines strings.Builder
	for _, item := range called.Output {
		call := item.AsFunctionCall()
		lines.WriteString(calledLine(call.CallID, call.Name, call.Arguments))
		param, result := call.ToParam(), items.ResponseInputItemParamOfFunctionCallOutput("sunny")
		result.OfFunctionCallOutput.CallID = openai.String(call.CallID)
		params.Input.OfInputItemList = append(params.Input.OfInputItemList, items.ResponseInputItemUnionParam{OfFunctionCall: &param}, result)
	}
	answer, err := c.Responses.New(ctx, params)
	if err != nil {
		return "", err
	}
	return lines.String() + answer.OutputText(), nil
}

func (goResponses) seen(err error) (loopError, bool) { return openaiSeen(err) }
