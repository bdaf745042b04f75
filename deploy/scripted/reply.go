package scripted

import "net/http"

// Reply is an answer: a raw status and body, or a message that is written as one JSON
// document or as a stream, as the client asks for.
type Reply struct {
	// Status other than 0 sends Body as it is.
	Status int
	Header http.Header
	Body   []byte

	// Pieces is the text of the message; a stream sends each in a chunk of its own.
	Pieces    []string
	ToolCalls []ToolCall
	// Hold keeps a stream open after its first piece until the channel is
	// closed or the client leaves. Nil holds nothing.
	Hold <-chan struct{}
}

// ToolCall is a call of a tool. A stream sends Arguments in two halves.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string
}

// Text returns a reply with a text, one chunk a piece.
func Text(pieces ...string) Reply { return Reply{Pieces: pieces} }

// Tools returns a reply with tool calls.
func Tools(calls ...ToolCall) Reply { return Reply{ToolCalls: calls} }

// Error returns an error in OpenAI's format.
func Error(status int, code, message string) Reply {
	return failure(status, object{"error": object{"message": message, "type": code, "param": nil, "code": code}})
}

// AnthropicError returns an error in Anthropic's format.
func AnthropicError(status int, kind, message string) Reply {
	return failure(status, object{"type": "error", "error": object{"type": kind, "message": message}, "request_id": "req_scripted"})
}

// GeminiError returns an error in Google's format, with a name such as NOT_FOUND.
func GeminiError(status int, name, message string) Reply {
	return failure(status, object{"error": object{"code": status, "message": message, "status": name}})
}

func failure(status int, document object) Reply {
	return Reply{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(text(document))}
}
