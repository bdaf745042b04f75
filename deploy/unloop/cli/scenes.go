package cli

import (
	"fmt"
	"slices"
	"strings"
)

// scene is an agent of the demo with its requests.
type scene struct {
	// session names the agent's conversation.
	session string
	title   string
	turns   []turn
}

// turn is one request.
type turn struct {
	// says describes the request in a few words.
	says     string
	messages []message
}

// message is a message of a Chat Completions request.
type message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// scenes returns the agents of the demo: one that works, and four that loop.
func scenes() []scene {
	const task = "Make the tests of the billing service pass."
	retry := "That was not valid JSON. Try again."
	return []scene{
		{"honest", "An honest agent makes five different requests.", prompts("Read main.go", "Run the tests", "Fix the failing test", "Run the tests again", "Write the summary")},
		{"exact", "An agent sends the same prompt again and again.", prompts(retry, retry, retry, retry, retry, retry, retry)},
		{"tool", "An agent makes the same tool call again and again, and gets the same result.", rounds(task, 6,
			function{"read_file", `{"path":"config.yaml"}`})},
		{"cycle", "An agent goes in a circle: edit, test, undo, and nothing changes.", rounds(task, 10,
			function{"edit", `{"path":"bill.go","patch":"+ round()"}`}, function{"run_tests", `{"package":"billing"}`}, function{"undo", `{"path":"bill.go"}`})},
		{"reworded", "An agent asks the same in other words.", rewordings("find out why the login page redirects twice.")},
	}
}

// prompts returns the turns of an agent that sends single prompts.
func prompts(texts ...string) []turn {
	var all []turn
	for _, text := range texts {
		all = append(all, turn{fmt.Sprintf("%q", text), []message{{Role: "user", Content: text}}})
	}
	return all
}

// rounds returns n turns of an agent that cycles through tool calls. Each request contains the
// history with the results so far.
func rounds(task string, n int, calls ...function) []turn {
	results := map[string]string{"read_file": "retries: 3", "edit": "done", "run_tests": "FAIL TestTotal: got 12.5, want 13", "undo": "done"}
	history := []message{{Role: "user", Content: task}}
	var all []turn
	for i := range n {
		call := calls[i%len(calls)]
		id := fmt.Sprint("call_", i)
		history = append(history,
			message{Role: "assistant", ToolCalls: []toolCall{{id, "function", call}}},
			message{Role: "tool", ToolCallID: id, Content: results[call.Name]})
		all = append(all, turn{call.Name + " → " + results[call.Name], slices.Clip(history)})
	}
	return all
}

// rewordings returns the turns of an agent that keeps rephrasing one request.
func rewordings(what string) []turn {
	var all []string
	for _, before := range []string{
		"Please ", "Could you ", "Once more, ", "I still need you to ", "Try again to ", "Now really ", "Again: ", "Look closer and ", "As I said, ", "It is broken, ", "Hey, ", "For the last time, ",
	} {
		all = append(all, strings.TrimSpace(before+what))
	}
	return prompts(all...)
}
