package conformance

import (
	"fmt"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/wire/provider/bedrock"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/provider/gemini"
	"github.com/unloop/unloop/gateway/internal/wire/provider/ollama"
	"github.com/unloop/unloop/gateway/internal/wire/provider/responses"
)

// honest are texts that people and tools write, over and over.
var honest = map[string]string{
	"prose": "The quick brown fox jumps over the lazy dog. ",
	"code":  "\tif err != nil {\n\t\treturn fmt.Errorf(\"read %s: %w\", path, err)\n\t}\n",
	"log":   "2026-05-22T14:30:00Z INFO [worker-12] GET /a/b?c=17 took 31ms pid=4711 0x7f3a2b\n",
	"json":  `{"id":17,"name":"a \"b\" c","at":"2026-05-22","list":[1,2,3]},`,
}

// hostile are texts that a careless reader needs n² steps for, if they are repeated.
var hostile = map[string]string{
	"scratchpad":         "Action: a\nObservation: b\n",
	"actions":            "Action: a\n",
	"observations":       "Action\nObservation: b\n",
	"thoughts":           "Thought: a\nAction: b\nAction Input: c\nObservation: d\n",
	"questions":          "Question: a\nAction: b\nObservation: c\n",
	"colons":             "::::::::",
	"envelopes":          "<budget></budget>",
	"nested envelopes":   "<bud<budget></budget>get>",
	"open envelopes":     "<budget>",
	"reminders":          "<system-reminder>a</system-reminder>",
	"open calls":         "<tool_call a=>",
	"calls":              "<tool_call>a</tool_call>",
	"open functions":     "<function_calls>",
	"open and closed":    "<a></b>",
	"angles":             "<a ",
	"fences":             "```\na\n```\n",
	"open fences":        "```a\n",
	"backticks":          "`",
	"braces":             "{",
	"nested names":       `{"name":`,
	"nested lists":       "[",
	"quotes":             "\"",
	"backslashes":        "\\",
	"line ends":          "\n",
	"spaces":             " ",
	"tabs and line ends": "\t\n",
	"digits":             "7",
	"clocks":             "12:00:00 ",
	"days":               "Mon, ",
	"months":             "Jan 2 ",
	"uuids":              "6ba7b810-9dad-11d1-80b4-00c04fd430c8 ",
	"hex":                "deadbeef",
	"addresses":          "0x7f3a2b1c ",
	"paths":              "/tmp/a.b/",
	"temporary":          "/tmp/tmp.",
	"pods":               "a-5d4f8c7b9-",
	"dots":               "1.",
	"dashes":             "-",
	"jobs":               "[1] 2\n",
	"ports":              "localhost:40000 ",
	"errors":             "Error: ",
	"exit codes":         "exit code 1\n",
	"nothing found":      "No matches found. ",
	"steps":              "Step 3 of 10\n",
	"here-documents":     "cat <<EOF\n",
	"comments":           "# a\n",
	"characters":         "漢字",
	"invisible":          "\u200b",
	"upper case":         "İ",
	"invalid":            "\xff",
	"marks":              "recursive_loop_detected: ",
	"base64":             "QUJD",
	"media":              "data:image/png;base64,",
	"secrets":            "sk-abc123 Bearer eyJ ",
	"one word":           "a",
	"long words":         "abcdefghijklmnopqrstuvwxyz_",
	"summaries":          "conversation summar ",
	"polls":              "sleep 1; kubectl get pods\n",
}

// shape is a body of a format that repeats one of its elements.
type shape struct {
	name                string
	format              provider.Provider
	before, unit, after string
}

// body returns a body of about size bytes. In a unit, # is its number, and ~ that of the
// unit which is as far from the end.
func (s *shape) body(size int) []byte {
	numbered := func(i, n int) string {
		return strings.ReplaceAll(strings.ReplaceAll(s.unit, "#", fmt.Sprintf("%06d", i)), "~", fmt.Sprintf("%06d", n-1-i))
	}
	n := max(1, size/(len(numbered(0, 1))+1))
	list := make([]string, n)
	for i := range list {
		list[i] = numbered(i, n)
	}
	return []byte(s.before + strings.Join(list, ",") + s.after)
}

// shapes are bodies that a careless reader of a format needs n² steps for.
var shapes = []shape{
	{"users", chat.Chat{}, `{"model":"m","messages":[`, `{"role":"user","content":"a"}`, `]}`},
	{"assistants", chat.Chat{}, `{"model":"m","messages":[`, `{"role":"assistant","content":"a"}`, `]}`},
	{"systems", chat.Chat{}, `{"model":"m","messages":[`, `{"role":"system","content":"a#"}`, `]}`},
	{"alternating", chat.Chat{}, `{"model":"m","messages":[`, `{"role":"user","content":"a"},{"role":"assistant","content":"b"}`, `]}`},
	{"actions", chat.Chat{}, `{"model":"m","messages":[`, `{"role":"assistant","content":"Action: a"},{"role":"user","content":"b#"}`, `]}`},
	{"tools", chat.Chat{}, `{"model":"m","messages":[`, `{"role":"tool","tool_call_id":"#","content":"a"}`, `]}`},
	{"tools alike", chat.Chat{}, `{"model":"m","messages":[`, `{"role":"tool","tool_call_id":"x","content":"a"}`, `]}`},
	{"tiny rounds", chat.Chat{}, `{"model":"m","messages":[`, `{"role":"assistant","tool_calls":[{"id":"#","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"#","content":"x"}`, `]}`},
	{"calls", chat.Chat{}, `{"model":"m","messages":[{"role":"assistant","tool_calls":[`, `{"id":"#","function":{"name":"f"}}`, `]}]}`},
	{"calls then tools", chat.Chat{}, `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f"}}]},`, `{"role":"tool","tool_call_id":"#","content":"a"}`, `]}`},
	{"parts", chat.Chat{}, `{"model":"m","messages":[{"role":"user","content":[`, `{"type":"text","text":"a"}`, `]}]}`},
	{"parts of tool", chat.Chat{}, `{"model":"m","messages":[{"role":"tool","tool_call_id":"x","content":[`, `{"type":"text","text":"a"}`, `]}]}`},
	{"reminders", chat.Chat{}, `{"model":"m","messages":[{"role":"user","content":[`, `{"type":"text","text":"<system-reminder>a</system-reminder>"}`, `]}]}`},
	{"images", chat.Chat{}, `{"model":"m","messages":[{"role":"user","content":[`, `{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}`, `]}]}`},
	{"deep parts", chat.Chat{}, `{"model":"m","messages":[{"role":"user","content":[`, strings.Repeat("[", 500) + `"a"` + strings.Repeat("]", 500), `]}]}`},
	{"deep objects", chat.Chat{}, `{"model":"m","messages":[{"role":"user","content":[`, strings.Repeat(`{"a":`, 500) + `"a"` + strings.Repeat("}", 500), `]}]}`},
	{"fields", chat.Chat{}, `{"model":"m","messages":[{"role":"user","content":"a",`, `"n#":1`, `}]}`},
	{"names", chat.Chat{}, `{"model":"m","messages":[{"role":"user","content":"x"}],`, `"n#":0`, `}`},
	{"names reversed", chat.Chat{}, `{"model":"m","messages":[{"role":"user","content":"x"}],`, `"n~":0`, `}`},
	{"offered", chat.Chat{}, `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f"}}]}],"tools":[`, `{"function":{"name":"#"}}`, `]}`},
	{"stray and twice", chat.Chat{}, `{"model":"m","messages":[{"role":"user","content":"x"}],"a":[`, `{"b":1,"b":2}`, `]}`},
	{"NaN", chat.Chat{}, `{"model":"m","messages":[{"role":"user","content":"x"}],"a":[`, `NaN`, `]}`},
	{"-", chat.Chat{}, `{"model":"m","messages":[{"role":"user","content":"x"}],"a":[`, `-1`, `]}`},
	{"broken", chat.Chat{}, `{"model":"m","messages":[`, `{"role":"user","content":"a"}`, ``},
	{"users", responses.Responses{}, `{"model":"m","input":[`, `{"role":"user","content":"a"}`, `]}`},
	{"outputs", responses.Responses{}, `{"model":"m","input":[`, `{"type":"function_call_output","call_id":"#","output":""}`, `]}`},
	{"outputs of earlier", responses.Responses{}, `{"model":"m","previous_response_id":"r","input":[`, `{"type":"function_call_output","call_id":"#","output":""}`, `]}`},
	{"calls", responses.Responses{}, `{"model":"m","input":[`, `{"type":"function_call","call_id":"#","name":"f"}`, `]}`},
	{"rounds", responses.Responses{}, `{"model":"m","input":[`, `{"type":"function_call","call_id":"#","name":"f"},{"type":"function_call_output","call_id":"#","output":""}`, `]}`},
	{"references", responses.Responses{}, `{"model":"m","input":[`, `{"type":"item_reference","id":"#"}`, `]}`},
	{"computer", responses.Responses{}, `{"model":"m","input":[`, `{"type":"computer_call_output","call_id":"#","output":{}}`, `]}`},
	{"shell", responses.Responses{}, `{"model":"m","input":[`, `{"type":"local_shell_call","call_id":"#","action":{"command":["a"]}}`, `]}`},
	{"mcp", responses.Responses{}, `{"model":"m","input":[`, `{"type":"mcp_call","id":"#","name":"f","arguments":"{}","output":"a"}`, `]}`},
	{"search", responses.Responses{}, `{"model":"m","input":[`, `{"type":"web_search_call","id":"#","action":{"query":"a"}}`, `]}`},
	{"reasoning", responses.Responses{}, `{"model":"m","input":[`, `{"type":"reasoning","id":"#","summary":[]}`, `]}`},
	{"users", anthropic.Messages{}, `{"model":"m","messages":[`, `{"role":"user","content":"a"}`, `]}`},
	{"alternating", anthropic.Messages{}, `{"model":"m","messages":[`, `{"role":"user","content":"a"},{"role":"assistant","content":"b"}`, `]}`},
	{"billing", anthropic.Messages{}, `{"model":"m","messages":[{"role":"user","content":"hi"}],"system":[`, `{"type":"text","text":"x-anthropic-billing-header:"}`, `]}`},
	{"system", anthropic.Messages{}, `{"model":"m","messages":[{"role":"user","content":"hi"}],"system":[`, `{"type":"text","text":"a"}`, `]}`},
	{"results", anthropic.Messages{}, `{"model":"m","messages":[{"role":"user","content":[`, `{"type":"tool_result","tool_use_id":"#","content":"a"}`, `]}]}`},
	{"results with parts", anthropic.Messages{}, `{"model":"m","messages":[{"role":"user","content":[`, `{"type":"tool_result","tool_use_id":"#","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, `]}]}`},
	{"parts of a result", anthropic.Messages{}, `{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[`, `{"type":"text","text":"a"}`, `]}]}]}`},
	{"calls", anthropic.Messages{}, `{"model":"m","messages":[{"role":"assistant","content":[`, `{"type":"tool_use","id":"#","name":"f","input":{}}`, `]}]}`},
	{"rounds", anthropic.Messages{}, `{"model":"m","messages":[`, `{"role":"assistant","content":[{"type":"tool_use","id":"#","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"#","content":"a"}]}`, `]}`},
	{"server calls", anthropic.Messages{}, `{"model":"m","messages":[{"role":"assistant","content":[`, `{"type":"server_tool_use","id":"#","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"#","content":[]}`, `]}]}`},
	{"blank", anthropic.Messages{}, `{"model":"m","messages":[`, `{"role":"user","content":[{"type":"text","text":" "}]}`, `]}`},
	{"thinking", anthropic.Messages{}, `{"model":"m","messages":[{"role":"assistant","content":[`, `{"type":"thinking","thinking":"a","signature":"b"}`, `]}]}`},
	{"users", bedrock.Converse{}, `{"messages":[`, `{"role":"user","content":[{"text":"a"}]}`, `]}`},
	{"blocks", bedrock.Converse{}, `{"messages":[{"role":"user","content":[`, `{"text":"a"}`, `]}]}`},
	{"calls", bedrock.Converse{}, `{"messages":[{"role":"assistant","content":[`, `{"toolUse":{"toolUseId":"#","name":"f","input":{}}}`, `]}]}`},
	{"results", bedrock.Converse{}, `{"messages":[{"role":"user","content":[`, `{"toolResult":{"toolUseId":"#","content":[{"text":"a"}]}}`, `]}]}`},
	{"rounds", bedrock.Converse{}, `{"messages":[`, `{"role":"assistant","content":[{"toolUse":{"toolUseId":"#","name":"f","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"#","content":[{"json":{}}]}}]}`, `]}`},
	{"results", bedrock.Invoke{}, `{"anthropic_version":"v","messages":[{"role":"user","content":[`, `{"type":"tool_result","tool_use_id":"#","content":"a"}`, `]}]}`},
	{"users", ollama.Prompts{}, `{"model":"m","messages":[`, `{"role":"user","content":"a"}`, `]}`},
	{"calls", ollama.Prompts{}, `{"model":"m","messages":[{"role":"assistant","tool_calls":[`, `{"function":{"name":"f","arguments":{}}}`, `]}]}`},
	{"results", ollama.Prompts{}, `{"model":"m","messages":[`, `{"role":"tool","tool_name":"f","content":"a"}`, `]}`},
	{"rounds", ollama.Prompts{}, `{"model":"m","messages":[`, `{"role":"assistant","tool_calls":[{"id":"#","function":{"name":"f","arguments":{}}}]},{"role":"tool","tool_call_id":"#","content":"a"}`, `]}`},
	{"rounds without ids", ollama.Prompts{}, `{"model":"m","messages":[`, `{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]},{"role":"tool","tool_name":"f","content":"a"}`, `]}`},
	{"images", ollama.Prompts{}, `{"model":"m","messages":[{"role":"user","content":"a","images":[`, `"QUJD"`, `]}]}`},
	{"parts", gemini.Generate{}, `{"contents":[{"role":"user","parts":[`, `{"text":"x"}`, `]}]}`},
	{"contents", gemini.Generate{}, `{"contents":[`, `{"role":"user","parts":[{"text":"x"}]}`, `]}`},
	{"calls", gemini.Generate{}, `{"contents":[{"role":"model","parts":[`, `{"functionCall":{"name":"f","args":{}}}`, `]}]}`},
	{"responses", gemini.Generate{}, `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[`, `{"functionResponse":{"name":"f","response":{"output":"a"}}}`, `]}]}`},
	{"rounds", gemini.Generate{}, `{"contents":[`, `{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"a"}}}]}`, `]}`},
	{"thoughts", gemini.Generate{}, `{"contents":[{"role":"model","parts":[`, `{"text":"x","thought":true}`, `]}]}`},
	{"media", gemini.Generate{}, `{"contents":[{"role":"user","parts":[{"functionResponse":{"name":"f","response":{},"parts":[`, `{"inlineData":{"mimeType":"image/png","data":"QUJD"}}`, `]}}]}]}`},
	{"declarations", gemini.Generate{}, `{"contents":[{"role":"user","parts":[{"text":"x"}]}],"tools":[{"functionDeclarations":[`, `{"name":"#"}`, `]}]}`},
}
