package textact

import (
	"bytes"
	"slices"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
)

// names are the members of a JSON action that name it, and inputs those that have its
// input. Other members are thoughts of the model.
var (
	names  = []string{"action", "actions", "command", "commands", "tool", "tool_name", "tool_call", "tool_calls", "function", "function_call", "name"}
	inputs = []string{"action_input", "args", "arguments", "tool_input", "tool_args", "input", "parameters", "params", "kwargs"}
)

// object reads an action from a text that is a JSON object.
func object(text []byte) Action {
	text = bytes.TrimSpace(text)
	if len(text) < 2 || text[0] != '{' || text[len(text)-1] != '}' {
		return Action{}
	}
	a := Action{Form: JSON, Tool: "action", Mark: `"`}
	acts, named, input := false, false, false
	err := jsonwalk.Text(text, func(w *jsonwalk.Walker) error {
		return w.Object(func(name []byte) error {
			does, with := slices.Contains(names, string(name)), slices.Contains(inputs, string(name))
			if !does && !with {
				return w.Skip()
			}
			value, err := w.Raw()
			if err != nil {
				return err
			}
			if does && isShape(value) {
				return nil
			}
			named = named || string(name) == "name"
			acts = acts || does && string(name) != "name"
			input = input || with
			if does {
				a.Tool, a.Mark = toolOf(value, a.Tool), `"`+string(name)+`"`
			}
			a.Call = append(append(append(append(a.Call, name...), ' '), value...), '\n')
			return nil
		})
	})
	if err != nil || !acts && (!named || !input) {
		return Action{}
	}
	return a
}

// toolOf returns the tool that a member names: by its string, or by that of the member
// "name" of its object.
func toolOf(value []byte, otherwise string) string {
	name := value
	if len(value) > 0 && value[0] == '{' {
		_ = jsonwalk.Text(value, func(w *jsonwalk.Walker) error { // it is valid
			return w.Object(func(member []byte) (err error) {
				if string(member) == "name" {
					name, err = w.Raw()
				}
				return err
			})
		})
	}
	if len(name) > 0 && name[0] == '"' {
		return toolName(jsonwalk.AppendString(nil, name), otherwise)
	}
	return otherwise
}
