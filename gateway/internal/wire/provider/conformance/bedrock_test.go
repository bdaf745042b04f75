package conformance

import "encoding/json"

// Converse writes requests of Bedrock's Converse.
func Converse(c Conversation) []byte {
	var list, tools []any
	for _, t := range c.Turns {
		role := "user"
		if t.Said != "" || t.Calls != nil {
			role = "assistant"
		}
		list = append(list, object{"role": role, "content": converseBlocks(t)})
	}
	for _, name := range c.Tools {
		tools = append(tools, object{"toolSpec": object{"name": name, "inputSchema": object{"json": object{"type": "object"}}}})
	}
	body := object{"messages": list, "toolConfig": object{"tools": tools}, "inferenceConfig": object{"maxTokens": 1000}}
	if c.System != "" {
		body["system"] = []any{object{"text": c.System}, object{"cachePoint": object{"type": "default"}}}
	}
	return marshal(body)
}

func converseBlocks(t Turn) (blocks []any) {
	for _, r := range t.Results {
		result := object{"toolUseId": r.ID, "content": []any{object{"text": r.Text}}}
		if r.Failed {
			result["status"] = "error"
		}
		blocks = append(blocks, object{"toolResult": result})
	}
	if t.Calls != nil {
		blocks = append(blocks, object{"reasoningContent": object{"reasoningText": object{"text": "hm", "signature": "s"}}})
	}
	for _, text := range []string{t.Beside, t.Human, t.Said} {
		if text != "" {
			blocks = append(blocks, object{"text": text})
		}
	}
	for _, call := range t.Calls {
		blocks = append(blocks, object{"toolUse": object{"toolUseId": call.ID, "name": call.Tool, "input": json.RawMessage(call.Args)}})
	}
	return blocks
}

// BedrockAnthropic writes Messages as Bedrock takes them: the model is in the path.
func BedrockAnthropic(c Conversation) []byte {
	var body object
	if err := json.Unmarshal(Anthropic(c), &body); err != nil {
		return nil
	}
	delete(body, "model")
	body["anthropic_version"] = "bedrock-2023-05-31"
	return marshal(body)
}

// bedrockPaths are the ends of paths, which name the model.
var bedrockPaths = map[string]string{"bedrock-converse": "/converse", "bedrock-anthropic": "/invoke"}

// pathFor returns the path of a request of a format that asks a model.
func pathFor(format, model string) string {
	if end, known := bedrockPaths[format]; known {
		return "/model/" + model + end
	}
	return "/v1beta/models/" + model + ":generateContent"
}

func converseWhole(d []object) (text, end string) {
	return textAt(d[0], "output", "message", "content", 0, "text"), textAt(d[0], "stopReason")
}

func converseEvents(d []object) (text, end string) {
	for _, event := range d {
		text += textAt(event, "delta", "text")
		end += textAt(event, "stopReason")
	}
	return text, end
}
