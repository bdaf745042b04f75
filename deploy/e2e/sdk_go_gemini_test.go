//go:build sdks

package e2e

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/genai"
)

// goGemini is Google's SDK with generateContent.
type goGemini struct{ *genai.Client }

func newGoGemini(t *testing.T, url string, via *http.Client) goSDK {
	t.Helper()
	client, err := genai.NewClient(t.Context(), &genai.ClientConfig{
		APIKey: "AIza-test", Backend: genai.BackendGeminiAPI, HTTPClient: via, HTTPOptions: genai.HTTPOptions{BaseURL: url},
	})
	if err != nil {
		t.Fatalf("make the client: %v", err)
	}
	return goGemini{client}
}

const geminiModel = "scripted-1"

func (c goGemini) plain(ctx context.Context, question string) (string, error) {
	answer, err := c.Models.GenerateContent(ctx, geminiModel, genai.Text(question), nil)
	if err != nil {
		return "", err
	}
	return shownAnswer(answer), nil
}

// shownAnswer is an answer without the headers of the HTTP response, which bear
// the time.
func shownAnswer(answer *genai.GenerateContentResponse) string {
	answer.SDKHTTPResponse = nil
	return jsonLine(answer)
}

func (c goGemini) stream(ctx context.Context, question string, each func(string)) (string, error) {
	var answers strings.Builder
	for answer, err := range c.Models.GenerateContentStream(ctx, geminiModel, genai.Text(question), nil) {
		if err != nil {
			return answers.String(), err
		}
		answers.WriteString(shownAnswer(answer))
		each(answer.Text())
	}
	return answers.String(), nil
}

func (c goGemini) tools(ctx context.Context, question string) (string, error) {
	cfg := &genai.GenerateContentConfig{Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "weather"}}}}}
	contents := genai.Text(question)
	var lines strings.Builder
	var results []*genai.Part
	for answer, err := range c.Models.GenerateContentStream(ctx, geminiModel, contents, cfg) {
		if err != nil {
			return "", err
		}
		contents = append(contents, answer.Candidates[0].Content)
		for _, call := range answer.FunctionCalls() {
			lines.WriteString(calledLine(call.ID, call.Name, strings.TrimSpace(jsonLine(call.Args))))
			result := genai.NewPartFromFunctionResponse(call.Name, map[string]any{"output": "sunny"})
			result.FunctionResponse.ID = call.ID
			results = append(results, result)
		}
	}
	answer, err := c.Models.GenerateContent(ctx, geminiModel, append(contents, genai.NewContentFromParts(results, genai.RoleUser)), cfg)
	if err != nil {
		return "", err
	}
	return lines.String() + answer.Text(), nil
}

// seen reads an error. Google's has neither headers nor what is beside its own
// fields.
func (goGemini) seen(err error) (loopError, bool) {
	var api genai.APIError
	if !errors.As(err, &api) {
		return loopError{}, false
	}
	seen := loopError{RateLimitError: api.Status == "RESOURCE_EXHAUSTED", Status: api.Code, Text: api.Error()}
	for _, info := range api.Details {
		seen.Code, _ = info["reason"].(string)
		metadata, _ := info["metadata"].(map[string]any)
		seen.Detail = detailOf(metadata)
		seen.Detail.Error, seen.Detail.Message = strings.ToLower(seen.Code), api.Message
	}
	return seen, true
}

// detailOf reads the texts of Google's ErrorInfo.
func detailOf(metadata map[string]any) loopDetail {
	text := func(name string) string {
		value, _ := metadata[name].(string)
		return value
	}
	number := func(name string) int {
		n, err := strconv.Atoi(text(name))
		if err != nil {
			return -1
		}
		return n
	}
	return loopDetail{
		Detector: text("detector"), Policy: text("policy"), Fingerprint: text("fingerprint"), LoopID: text("loop_id"),
		HitCount: number("hit_count"), WindowSeconds: number("window_seconds"), CooldownSeconds: number("cooldown_seconds"),
	}
}
