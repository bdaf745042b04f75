package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
)

// inPlace is what a gateway says in the model's place. It needs quoting.
const inPlace = "Stopped by Unloop: the same tool call (\"bash\") with the same result 5 times (recursive_loop_detected).\nSee above – 別. <b> \u2028"

// form is how the answer to a request is read.
type form struct {
	// with are members of the body that ask for the form; url is where it goes.
	with object
	url  string
	// events are the names of a stream's events, or the kinds of its documents,
	// in order; nil for an answer of one document.
	events []string
	// read returns the text in the documents of an answer, and why it ends.
	read func(documents []object) (text, end string)
}

// forms are those of each format. A stream of Chat Completions ends in a line of
// its own.
var forms = map[string][]form{
	"openai-chat": {
		{nil, "/v1/chat/completions", nil, chatWhole},
		{object{"stream": true}, "/v1/chat/completions", []string{"role", "content", "stop", "[DONE]"}, chatChunks},
		{object{"stream": true, "stream_options": object{"include_usage": true}}, "/v1/chat/completions",
			[]string{"role", "content", "stop", "usage", "[DONE]"}, chatChunks},
	},
	"openai-responses": {
		{nil, "/v1/responses", nil, response},
		{object{"stream": true}, "/v1/responses", []string{
			"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added", "response.output_text.delta",
			"response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
		}, responseEvents},
	},
	"anthropic-messages": {
		{nil, "/v1/messages", nil, message},
		{object{"stream": true}, "/v1/messages", []string{
			"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
		}, messageEvents},
	},
	"gemini": {
		{nil, "/v1beta/models/m-1:generateContent", nil, content},
		{nil, "/v1beta/models/m-1:streamGenerateContent?alt=sse", []string{"content"}, content},
		{nil, "/v1beta/models/m-1:streamGenerateContent", nil, content},
	},
	"bedrock-converse": {
		{nil, "/model/m-1/converse", nil, converseWhole},
		{nil, "/model/m-1/converse-stream", []string{"messageStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"}, converseEvents},
	},
	"bedrock-anthropic": {
		{nil, "/model/m-1/invoke", nil, message},
		{nil, "/model/m-1/invoke-with-response-stream", []string{
			"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
		}, messageEvents},
	},
	"ollama": {
		{nil, "/api/chat", nil, ollamaParts},
		{object{"stream": true}, "/api/chat", []string{"content", "content"}, ollamaParts},
		{object{"stream": true}, "/api/generate", []string{"content", "content"}, ollamaParts},
	},
}

// structured are members of a body by which the answer must be data.
var structured = map[string]object{
	"openai-chat":        {"response_format": object{"type": "json_schema", "json_schema": object{}}},
	"openai-responses":   {"text": object{"format": object{"type": "json_schema", "schema": object{}}}},
	"anthropic-messages": {"output_config": object{"format": object{"type": "json_schema", "schema": object{}}}},
	"gemini":             {"generationConfig": object{"responseMimeType": "application/json"}},
	"bedrock-converse":   {"outputConfig": object{"textFormat": object{"type": "json_schema"}}},
	"bedrock-anthropic":  {"output_config": object{"format": object{"type": "json_schema", "schema": object{}}}},
	"ollama":             {"format": object{"type": "object"}},
}

func (s suite) answers(t *testing.T) {
	t.Parallel()
	for _, f := range forms[s.p.Name()] {
		answer, err := s.answer(t, f)
		if err != nil {
			t.Fatalf("%v at %s: %v", f.with, f.url, err)
		}
		documents, events := documentsOf(t, answer)
		if diff := cmp.Diff(f.events, events); diff != "" {
			t.Errorf("%v at %s (-want +got):\n%s", f.with, f.url, diff)
		}
		text, end := f.read(documents)
		if text != inPlace || !strings.EqualFold(end, "stop") && end != "end_turn" && end != "completed" {
			t.Errorf("%v at %s: says %q, ends as %q", f.with, f.url, text, end)
		}
		model, tokens := "", 0.0
		for _, d := range documents {
			inside(d, &model, &tokens)
		}
		if s.p.Name() == "bedrock-converse" { // its answers name no model
			model = "m-1"
		}
		if model != "m-1" || tokens != 0 {
			t.Errorf("%v at %s: model %q, %v tokens; want the one that was asked for, and none", f.with, f.url, model, tokens)
		}
	}
	if _, err := s.answer(t, form{with: structured[s.p.Name()], url: forms[s.p.Name()][0].url}); !errors.Is(err, provider.ErrNoAnswer) {
		t.Errorf("a text where the answer must be data: %v", err)
	}
	if _, err := s.p.Answer(nil, provider.Reply{}); !errors.Is(err, provider.ErrNoAnswer) {
		t.Errorf("an answer to no prompt: %v", err)
	}
}

// answer is what the model would have answered.
func (s suite) answer(t *testing.T, f form) (provider.Answer, error) {
	t.Helper()
	var body object
	if err := json.Unmarshal(s.write(Fixing()), &body); err != nil {
		t.Fatal(err)
	}
	maps.Copy(body, f.with)
	u, err := url.Parse(f.url)
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := s.p.Parse(marshal(body), provider.Options{Path: u.Path})
	if err != nil || prompt == nil {
		t.Fatalf("parse: %v, %v", prompt, err)
	}
	return s.p.Answer(prompt, provider.Reply{ID: "x1", Text: inPlace, At: time.Unix(1_767_225_600, 0), URL: u})
}

// documentsOf takes an answer apart, and names the events of a stream.
func documentsOf(t *testing.T, a provider.Answer) (documents []object, events []string) {
	t.Helper()
	if a.ContentType == provider.TypeJSON {
		var one object
		if a.Body[0] == '[' {
			if err := json.Unmarshal(a.Body, &documents); err != nil {
				t.Fatal(err)
			}
			return documents, nil
		}
		if err := json.Unmarshal(a.Body, &one); err != nil {
			t.Fatal(err)
		}
		return []object{one}, nil
	}
	for event := range strings.SplitSeq(strings.TrimSpace(strings.ReplaceAll(eventsOf(a), "\r\n", "\n")), "\n\n") {
		name, data, _ := strings.Cut("\n"+event, "\ndata: ")
		var d object
		switch err := json.Unmarshal([]byte(data), &d); {
		case data == "[DONE]":
			events = append(events, data)
			continue
		case err != nil:
			t.Fatalf("%s: %v", event, err)
		}
		if kind, named := strings.CutPrefix(name, "\nevent: "); !named {
			events = append(events, kindOf(d))
		} else if events = append(events, kind); a.ContentType == provider.TypeEvents && d["type"] != kind {
			t.Errorf("event %s is of type %v", kind, d["type"])
		}
		documents = append(documents, d)
	}
	return documents, events
}

// eventsOf returns a stream as server-sent events.
func eventsOf(a provider.Answer) string {
	var out strings.Builder
	if framing := formats.Framing(a.ContentType); framing != nil {
		_, _ = framing.Events(&out).Write(a.Body)
		return out.String()
	}
	return string(a.Body)
}

// kindOf is what an event without a name brings.
func kindOf(d object) string {
	choices, chunk := d["choices"].([]any)
	switch {
	case !chunk:
		return "content"
	case len(choices) == 0:
		return "usage"
	}
	choice := choices[0].(object)
	delta := choice["delta"].(object)
	switch {
	case choice["finish_reason"] != nil:
		return fmt.Sprint(choice["finish_reason"])
	case delta["role"] != nil:
		return "role"
	default:
		return "content"
	}
}

// inside finds the model and adds up all tokens, at any depth.
func inside(value any, model *string, tokens *float64) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			inside(element, model, tokens)
		}
	case object:
		for name, member := range v {
			if n, ok := member.(float64); ok && strings.Contains(strings.ToLower(name), "token") {
				*tokens += n
			}
			if named, ok := member.(string); ok && (name == "model" || name == "modelVersion") {
				*model = named
			}
			inside(member, model, tokens)
		}
	}
}

// at follows names and indexes into a document; nil where nothing is there.
func at(value any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			members, _ := value.(object)
			value = members[step]
		case int:
			elements, _ := value.([]any)
			if step >= len(elements) {
				return nil
			}
			value = elements[step]
		}
	}
	return value
}

func textAt(value any, path ...any) string {
	text, _ := at(value, path...).(string)
	return text
}

func chatWhole(d []object) (text, end string) {
	return textAt(d[0], "choices", 0, "message", "content"), textAt(d[0], "choices", 0, "finish_reason")
}

func chatChunks(d []object) (text, end string) {
	for _, chunk := range d {
		text += textAt(chunk, "choices", 0, "delta", "content")
		end += textAt(chunk, "choices", 0, "finish_reason")
	}
	return text, end
}

func response(d []object) (text, end string) {
	return textAt(d[0], "output", 0, "content", 0, "text"), textAt(d[0], "status")
}

// responseEvents wants the same text in all events that tell of it, and numbers
// without gaps.
func responseEvents(d []object) (text, end string) {
	for n, event := range d {
		if at(event, "sequence_number") != float64(n) {
			return "", "out of order"
		}
		text += textAt(event, "delta")
	}
	whole, end := response([]object{d[len(d)-1]["response"].(object)})
	for _, other := range []string{whole, textAt(d[5], "text"), textAt(d[6], "part", "text"), textAt(d[7], "item", "content", 0, "text")} {
		if other != text {
			return other, end
		}
	}
	return text, end
}

func message(d []object) (text, end string) {
	return textAt(d[0], "content", 0, "text"), textAt(d[0], "stop_reason")
}

func messageEvents(d []object) (text, end string) {
	for _, event := range d {
		text += textAt(event, "delta", "text")
		end += textAt(event, "delta", "stop_reason")
	}
	return text, end
}

func content(d []object) (text, end string) {
	for _, document := range d {
		text += textAt(document, "candidates", 0, "content", "parts", 0, "text")
		end += textAt(document, "candidates", 0, "finishReason")
	}
	return text, end
}

// answersComeBack expects that a gateway's words in the model's place are nothing
// when an agent keeps them in its history: no round, no human turn, and not what
// the agent said last.
func (s suite) answersComeBack(t *testing.T) {
	t.Parallel()
	c := Fixing()
	said := s.parse(t, c, provider.Options{Items: 9})
	c.Turns = append(c.Turns, Turn{Said: inPlace})
	kept := s.parse(t, c, provider.Options{Items: 9})
	before, _ := said.Transcript.History(provider.Rules{})
	after, _ := kept.Transcript.History(provider.Rules{})
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("rounds (-before +after):\n%s", diff)
	}
	wantSaid, wantAnswered := said.Transcript.Exchange(1000)
	if got, answered := kept.Transcript.Exchange(1000); got != wantSaid || answered != wantAnswered {
		t.Errorf("the newest exchange is %q and %q", got, answered)
	}
	last := &c.Turns[len(c.Turns)-1]
	last.Calls = []Call{{"c9", "bash", `{"command":"ls"}`}}
	if got, _ := s.parse(t, c, provider.Options{Items: 9}).Transcript.Exchange(1000); got != `bash {"command":"ls"}` {
		t.Errorf("what the model does behind it is %q", got)
	}
	last.Calls, last.Said = nil, "I say myself that it goes round in circles."
	if got, _ := s.parse(t, c, provider.Options{Items: 9}).Transcript.Exchange(1000); got == wantSaid {
		t.Error("the model's own words are dropped")
	}
}
