package scripted

import "net/http"

// Reply is what to answer: a raw status and body, or a message that is written
// as one JSON document or as a stream, whichever the client asked for.
type Reply struct {
	// Status other than 0 sends Body as it is.
	Status int
	Header http.Header
	Body   []byte

	// Pieces are the message's text; a stream sends one a chunk.
	Pieces    []string
	ToolCalls []ToolCall
	// Hold keeps a stream open after its first piece until the channel is
	// closed or the client leaves. Nil holds nothing.
	Hold <-chan struct{}
}

// ToolCall is a call that the model asks for. A stream sends Arguments in two
// halves.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string
}

// Text is a reply of the given text, one chunk a piece.
func Text(pieces ...string) Reply { return Reply{Pieces: pieces} }

// Tools is a reply that asks for tool calls.
func Tools(calls ...ToolCall) Reply { return Reply{ToolCalls: calls} }

// Error is an error in OpenAI's shape.
func Error(status int, code, message string) Reply {
	return failure(status, object{"error": object{"message": message, "type": code, "param": nil, "code": code}})
}

// AnthropicError is an error in Anthropic's shape.
func AnthropicError(status int, kind, message string) Reply {
	return failure(status, object{"type": "error", "error": object{"type": kind, "message": message}, "request_id": "req_scripted"})
}

// GeminiError is an error in Google's shape; the name is one like NOT_FOUND.
func GeminiError(status int, name, message string) Reply {
	return failure(status, object{"error": object{"code": status, "message": message, "status": name}})
}

func failure(status int, document object) Reply {
	return Reply{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(text(document))}
}
