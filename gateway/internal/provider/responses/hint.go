package responses

import (
	"bytes"
	"fmt"

	"github.com/unloop/unloop/gateway/internal/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/provider/openai"
	"github.com/unloop/unloop/gateway/internal/provider/transcript"
	"github.com/unloop/unloop/gateway/internal/splice"
)

// Hint puts text before the instructions, or behind the newest user message or
// tool result.
func (Responses) Hint(body []byte, text, position string) ([]byte, error) {
	var object, instructions, newest splice.Place
	err := jsonwalk.Text(body, func(w *jsonwalk.Walker) error {
		object.From = w.Offset()
		err := w.Object(func(name []byte) (err error) {
			switch string(name) {
			case "instructions":
				instructions, err = splice.Value(w)
			case "input":
				newest, err = newestInput(w)
			}
			return err
		})
		object.To = w.Offset()
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", provider.ErrNoPlace, err)
	case position == provider.Result:
		return openai.AppendHint(body, newest, "input_text", text)
	default:
		return openai.HeadHint(body, object, instructions, "instructions", text)
	}
}

// newestInput finds the input, or the content of the newest item in it that a user
// or tool brought.
func newestInput(w *jsonwalk.Walker) (newest splice.Place, err error) {
	if w.Kind() != '[' {
		return splice.Value(w)
	}
	err = w.Array(func() error {
		var kind, role []byte
		var content, output splice.Place
		err := w.Object(func(name []byte) (err error) {
			switch string(name) {
			case "type":
				kind, err = w.Bytes()
			case "role":
				role, err = w.Bytes()
			case "content":
				content, err = splice.Value(w)
			case "output":
				output, err = splice.Value(w)
			}
			return err
		})
		switch {
		case string(kind) == "function_call_output", string(kind) == "custom_tool_call_output":
			newest = output
		case bytes.HasSuffix(kind, []byte("_call_output")):
			newest = splice.Place{} // its output has a form of its own
		case len(role) > 0 && openai.Role(role) == transcript.User:
			newest = content
		}
		return err
	})
	return newest, err
}
