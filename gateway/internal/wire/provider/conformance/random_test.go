package conformance

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// words of all formats, so that random bodies get deep into the parsers.
var (
	names = []string{
		"role", "content", "type", "text", "id", "name", "tool_calls", "function", "arguments", "tool_call_id", "tool_use_id", "input", "is_error",
		"call_id", "output", "action", "error", "status", "parts", "functionCall", "function_call", "functionResponse", "function_response", "args",
		"response", "thought", "thoughtSignature", "refusal", "cache_control", "willContinue", "images", "tool_name", "toolUse", "toolResult", "toolUseId", "reasoningContent",
	}
	values = []string{
		"user", "assistant", "system", "developer", "tool", "function", "model", "text", "input_text", "output_text", "thinking", "tool_use",
		"tool_result", "server_tool_use", "web_search_tool_result", "message", "reasoning", "function_call", "function_call_output",
		"custom_tool_call", "mcp_call", "computer_call_output", "input_image", "a", "b", "", " ", "in_progress", "pending", "{\"x\":1}", "<system-reminder>r</system-reminder>",
	}
	lists = []string{"messages", "input", "contents", "system", "instructions", "systemInstruction", "system_instruction", "tools", "metadata", "prompt", "conversation"}
)

func value(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kind := rapid.IntRange(0, 9).Draw(t, "kind")
		switch {
		case kind < 4 && depth > 0:
			return randomObject(names, depth).Draw(t, "object")
		case kind < 6 && depth > 0:
			return rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "list")
		case kind == 6:
			return rapid.SampledFrom([]any{nil, true, false, 1.5}).Draw(t, "literal")
		default:
			return rapid.SampledFrom(values).Draw(t, "text")
		}
	})
}

func randomObject(names []string, depth int) *rapid.Generator[map[string]any] {
	return rapid.MapOfN(rapid.SampledFrom(names), value(depth-1), 0, 6)
}

func TestRandomBodiesOfKnownWordsAreHandled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		request := randomObject(lists, 4).Draw(t, "request")
		for _, name := range []string{"messages", "input", "contents"} {
			request[name] = rapid.SliceOfN(randomObject(names, 4), 0, 6).Draw(t, name)
		}
		body, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			fuzzOne(t, p, body)
		}
	})
}
