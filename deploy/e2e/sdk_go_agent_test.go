//go:build sdks

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	items "github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

func (c goChat) agent(ctx context.Context, text string, streamed bool) (ended, error) {
	params := question(text)
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "weather"})}
	if streamed {
		params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	}
	for {
		completion, err := c.complete(ctx, params, streamed)
		if err != nil {
			return ended{}, err
		}
		choice := completion.Choices[0]
		if len(choice.Message.ToolCalls) == 0 {
			return ended{Text: choice.Message.Content, End: choice.FinishReason, Model: completion.Model, Tokens: int(completion.Usage.TotalTokens)}, nil
		}
		params.Messages = append(params.Messages, choice.Message.ToParam())
		for _, call := range choice.Message.ToolCalls {
			params.Messages = append(params.Messages, openai.ToolMessage("sunny", call.ID))
		}
	}
}

func (c goChat) complete(ctx context.Context, params openai.ChatCompletionNewParams, streamed bool) (*openai.ChatCompletion, error) {
	if !streamed {
		return c.Chat.Completions.New(ctx, params)
	}
	stream := c.Chat.Completions.NewStreaming(ctx, params)
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		if !whole.AddChunk(stream.Current()) {
			return nil, errors.New("the chunks make no completion")
		}
	}
	return &whole.ChatCompletion, stream.Err()
}

func (c goResponses) agent(ctx context.Context, question string, streamed bool) (ended, error) {
	params := c.ask(userItem(question))
	params.Tools = []items.ToolUnionParam{items.ToolParamOfFunction("weather", map[string]any{"type": "object"}, false)}
	for {
		response, err := c.respond(ctx, params, streamed)
		if err != nil {
			return ended{}, err
		}
		calls := 0
		for _, item := range response.Output {
			if item.Type != "function_call" {
				continue
			}
			calls++
			call := item.AsFunctionCall()
			param, result := call.ToParam(), items.ResponseInputItemParamOfFunctionCallOutput("sunny")
			result.OfFunctionCallOutput.CallID = openai.String(call.CallID)
			params.Input.OfInputItemList = append(params.Input.OfInputItemList, items.ResponseInputItemUnionParam{OfFunctionCall: &param}, result)
		}
		if calls == 0 {
			return ended{Text: response.OutputText(), End: string(response.Status), Model: response.Model, Tokens: int(response.Usage.TotalTokens)}, nil
		}
	}
}

func (c goResponses) respond(ctx context.Context, params items.ResponseNewParams, streamed bool) (*items.Response, error) {
	if !streamed {
		return c.Responses.New(ctx, params)
	}
	stream := c.Responses.NewStreaming(ctx, params)
	var whole items.Response
	for stream.Next() {
		if event := stream.Current(); event.Type == "response.completed" {
			whole = event.Response
		}
	}
	return &whole, stream.Err()
}

func (c goAnthropic) agent(ctx context.Context, question string, streamed bool) (ended, error) {
	params := c.ask(question)
	params.Tools = []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{}, "weather")}
	for {
		message, err := c.message(ctx, params, streamed)
		if err != nil {
			return ended{}, err
		}
		var results []anthropic.ContentBlockParamUnion
		for _, block := range message.Content {
			if block.Type == "tool_use" {
				results = append(results, anthropic.NewToolResultBlock(block.ID, "sunny", false))
			}
		}
		if results == nil {
			tokens := int(message.Usage.InputTokens + message.Usage.OutputTokens)
			return ended{Text: message.Content[0].Text, End: string(message.StopReason), Model: message.Model, Tokens: tokens}, nil
		}
		params.Messages = append(params.Messages, message.ToParam(), anthropic.NewUserMessage(results...))
	}
}

func (c goAnthropic) message(ctx context.Context, params anthropic.MessageNewParams, streamed bool) (*anthropic.Message, error) {
	if !streamed {
		return c.Messages.New(ctx, params)
	}
	stream := c.Messages.NewStreaming(ctx, params)
	whole := &anthropic.Message{}
	for stream.Next() {
		if err := whole.Accumulate(stream.Current()); err != nil {
			return nil, err
		}
	}
	return whole, stream.Err()
}

func (c goGemini) agent(ctx context.Context, question string, streamed bool) (ended, error) {
	cfg := &genai.GenerateContentConfig{Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "weather"}}}}}
	contents := genai.Text(question)
	for {
		var text string
		var results []*genai.Part
		var last *genai.GenerateContentResponse
		for answer, err := range c.contents(ctx, contents, cfg, streamed) {
			if err != nil {
				return ended{}, err
			}
			last, text = answer, text+answer.Text()
			contents = append(contents, answer.Candidates[0].Content)
			for _, call := range answer.FunctionCalls() {
				result := genai.NewPartFromFunctionResponse(call.Name, map[string]any{"output": "sunny"})
				result.FunctionResponse.ID = call.ID
				results = append(results, result)
			}
		}
		if results == nil {
			used := last.UsageMetadata.TotalTokenCount
			return ended{Text: text, End: string(last.Candidates[0].FinishReason), Model: last.ModelVersion, Tokens: int(used)}, nil
		}
		contents = append(contents, genai.NewContentFromParts(results, genai.RoleUser))
	}
}

// contents are the answers of a stream, or the one that is not streamed.
func (c goGemini) contents(ctx context.Context, contents []*genai.Content, cfg *genai.GenerateContentConfig, streamed bool) func(func(*genai.GenerateContentResponse, error) bool) {
	if streamed {
		return c.Models.GenerateContentStream(ctx, geminiModel, contents, cfg)
	}
	return func(yield func(*genai.GenerateContentResponse, error) bool) {
		yield(c.Models.GenerateContent(ctx, geminiModel, contents, cfg))
	}
}

func TestGoAgentsThatLoopEndWithAnAnswer(t *testing.T) {
	t.Parallel()
	for sdk, connect := range goSDKs {
		for _, streamed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, streamed %v", sdk, streamed), func(t *testing.T) {
				t.Parallel()
				upstream, wire := serve(t, looping), &counted{}
				client := connect(t, start(t, upstream.url, answering(t)).URL(), &http.Client{Transport: wire})
				got, err := client.agent(t.Context(), "How is the weather?", streamed)
				if err != nil {
					t.Fatal(err)
				}
				got.Sent = int(wire.sent.Load())
				checkEnded(t, sdk, got, upstream)
			})
		}
	}
}
