package scripted

import (
	"encoding/json"
	"fmt"
	"strings"
)

// content returns an answer of Gemini's generateContent.
func content(req Request, reply Reply) any {
	var parts []object
	if said := strings.Join(reply.Pieces, ""); said != "" {
		parts = append(parts, object{"text": said})
	}
	return candidate(req, reply, append(parts, callParts(reply)...), true)
}

// candidate returns a document with one candidate. The last one of a stream has the
// reason of its end.
func candidate(req Request, reply Reply, parts []object, last bool) object {
	used := tokens(req, reply)
	first := object{"content": object{"parts": parts, "role": "model"}, "index": 0}
	if last {
		first["finishReason"] = "STOP"
	}
	return object{
		"candidates":   []object{first},
		"modelVersion": modelOf(req),
		"responseId":   fmt.Sprintf("gemini-%06d", req.Number),
		"usageMetadata": object{
			"promptTokenCount": used.PromptTokens, "candidatesTokenCount": used.CompletionTokens, "totalTokenCount": used.TotalTokens,
		},
	}
}

// callParts returns the parts with tool calls. The first one has the signature that
// clients must send back.
func callParts(reply Reply) []object {
	parts := make([]object, len(reply.ToolCalls))
	for i, call := range reply.ToolCalls {
		parts[i] = object{"functionCall": object{"id": call.ID, "name": call.Name, "args": json.RawMessage(call.Arguments)}}
		if i == 0 {
			parts[i]["thoughtSignature"] = "c2lnbmVk"
		}
	}
	return parts
}

// modelOf returns the model in …/models/NAME:METHOD.
func modelOf(req Request) string {
	path := req.path()
	name, _, _ := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], ":")
	return name
}

// contents returns the documents of a stream.
func contents(req Request, reply Reply) []object {
	var all []object
	for i, piece := range reply.Pieces {
		last := i == len(reply.Pieces)-1 && len(reply.ToolCalls) == 0
		all = append(all, candidate(req, reply, []object{{"text": piece}}, last))
	}
	if len(reply.ToolCalls) > 0 || len(all) == 0 {
		all = append(all, candidate(req, reply, callParts(reply), true))
	}
	return all
}

// contentEvents returns a stream of events, with the line ends of Gemini.
func contentEvents(req Request, reply Reply) []frame {
	var all []frame
	for i, document := range contents(req, reply) {
		all = append(all, frame{"data: " + text(document) + "\r\n\r\n", i == 0})
	}
	return all
}

// contentArray returns a stream of one JSON array, an element at a time.
func contentArray(req Request, reply Reply) []frame {
	var all []frame
	begin := "["
	for i, document := range contents(req, reply) {
		all = append(all, frame{begin + text(document) + "\n", i == 0})
		begin = ",\r\n"
	}
	return append(all, frame{text: "]\n"})
}
