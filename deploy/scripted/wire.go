package scripted

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// wire is the format of one API.
type wire struct {
	// stream is the content type of a streamed answer.
	stream string
	// whole returns the document of an answer that is not streamed.
	whole func(Request, Reply) any
	// frames returns the parts of a streamed answer in their order.
	frames func(Request, Reply) []frame
}

// frame is a part of a stream that is sent at once.
type frame struct {
	text string
	// first says that it contains the reply's first piece.
	first bool
}

// object is a JSON object.
type object = map[string]any

const eventStream = "text/event-stream; charset=utf-8"

var (
	chatWire      = wire{eventStream, completion, chatFrames}
	responsesWire = wire{eventStream, response, responseFrames}
	messagesWire  = wire{eventStream, anthropicMessage, anthropicFrames}
	geminiEvents  = wire{"text/event-stream", content, contentEvents}
	geminiArray   = wire{"application/json; charset=UTF-8", content, contentArray}
)

// wireOf returns the format in which a request wants its answer; known is false for
// requests that are not for a model.
func wireOf(req Request) (w wire, streamed, known bool) {
	path, query, _ := strings.Cut(req.Target, "?")
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return chatWire, req.Chat.Stream, true
	case strings.HasSuffix(path, "/responses"):
		return responsesWire, req.Chat.Stream, true
	case strings.HasSuffix(path, "/messages"):
		return messagesWire, req.Chat.Stream, true
	case strings.HasSuffix(path, ":generateContent"):
		return geminiEvents, false, true
	case strings.HasSuffix(path, ":streamGenerateContent") && strings.Contains("&"+query+"&", "&alt=sse&"):
		return geminiEvents, true, true
	case strings.HasSuffix(path, ":streamGenerateContent"):
		return geminiArray, true, true
	default:
		return wire{}, false, false
	}
}

// send writes a streamed answer and reports whether the client stayed.
func (wr wire) send(ctx context.Context, w http.ResponseWriter, req Request, reply Reply) bool {
	w.Header().Set("Content-Type", wr.stream)
	w.Header().Set("Cache-Control", "no-cache")
	for _, f := range wr.frames(req, reply) {
		if _, err := w.Write([]byte(f.text)); err != nil {
			return false
		}
		if http.NewResponseController(w).Flush() != nil || f.first && !held(ctx, reply.Hold) {
			return false
		}
	}
	return true
}

func held(ctx context.Context, hold <-chan struct{}) bool {
	if hold == nil {
		return true
	}
	select {
	case <-hold:
		return true
	case <-ctx.Done():
		return false
	}
}

// dataFrame returns an event without a name.
func dataFrame(event any, first bool) frame {
	return frame{"data: " + text(event) + "\n\n", first}
}

// namedFrame returns an event with its type as its name.
func namedFrame(event object, first bool) frame {
	name, _ := event["type"].(string)
	return frame{"event: " + name + "\ndata: " + text(event) + "\n\n", first}
}

// text returns a document as JSON, or "" if the arguments of a scripted call are not
// JSON.
func text(document any) string {
	encoded, err := json.Marshal(document)
	if err != nil {
		return ""
	}
	return string(encoded)
}

// halves splits a text into two parts, without cutting a character.
func halves(s string) [2]string {
	half := len(s) / 2
	for half > 0 && half < len(s) && s[half]&0xC0 == 0x80 {
		half--
	}
	return [2]string{s[:half], s[half:]}
}

type echo struct {
	Object string `json:"object"`
	Method string `json:"method"`
	Target string `json:"target"`
	Body   string `json:"body"`
}

func writeJSON(w http.ResponseWriter, document any) bool {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write([]byte(text(document)))
	return err == nil
}
