package scripted

import "encoding/json"

// ToolResult reports whether the newest entry of the request's history is the result of a
// tool, in any format.
func (r Request) ToolResult() bool {
	var body struct {
		Messages []turn `json:"messages"`
		Input    items  `json:"input"`
		Contents []turn `json:"contents"`
	}
	if json.Unmarshal(r.Body, &body) != nil {
		return false
	}
	for _, history := range [][]turn{body.Messages, body.Input, body.Contents} {
		if len(history) > 0 {
			return history[len(history)-1].isResult()
		}
	}
	return false
}

// turn is an entry of a history: a message, an item or a content.
type turn struct {
	Role    string `json:"role"`
	Type    string `json:"type"`
	Content items  `json:"content"`
	Parts   []struct {
		FunctionResponse json.RawMessage `json:"functionResponse"`
	} `json:"parts"`
}

func (t turn) isResult() bool {
	if t.Role == "tool" || t.Type == "function_call_output" {
		return true
	}
	for _, block := range t.Content {
		if block.Type == "tool_result" {
			return true
		}
	}
	for _, part := range t.Parts {
		if part.FunctionResponse != nil {
			return true
		}
	}
	return false
}

// items is a list of entries; it is empty where a format has a text instead.
type items []turn

// UnmarshalJSON implements json.Unmarshaler.
func (i *items) UnmarshalJSON(raw []byte) error {
	if len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	var list []turn
	err := json.Unmarshal(raw, &list)
	*i = list
	return err
}
