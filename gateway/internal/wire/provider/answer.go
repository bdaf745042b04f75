package provider

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// ErrNoAnswer reports that a request can't be answered with a text in the model's
// place.
var ErrNoAnswer = errors.New("no answer in the model's place")

// Reply is a text in place of a model's.
type Reply struct {
	// ID is unique among answers. It consists of letters and digits.
	ID   string
	Text string
	At   time.Time
	// URL is that of the request. In some formats it decides the form of the answer.
	URL *url.URL
}

// Answer is an answer of status 200.
type Answer struct {
	ContentType string
	Body        []byte
}

// Answerable reports whether a text in the model's place is of use to the client. It is
// not if the answer must be data, nor if the provider keeps the history: it would not
// know the answer that the next request continues, nor the results in this one.
func (p *Prompt) Answerable() bool { return p != nil && !p.Structured && !p.Delta }

// Form returns the part of the prompt that an answer in the model's place depends on. It
// holds nothing of the body.
func (p *Prompt) Form() *Prompt {
	if p == nil {
		return nil
	}
	return &Prompt{Model: p.Model, Stream: p.Stream, StreamUsage: p.StreamUsage, Structured: p.Structured, Delta: p.Delta}
}

// WithoutHistory returns a prompt without its messages; nil for nil.
func (p *Prompt) WithoutHistory() *Prompt {
	if p == nil {
		return nil
	}
	left := *p
	left.Tail, left.References, left.Transcript = nil, nil, nil
	return &left
}

// Content types of answers.
const (
	TypeJSON   = "application/json"
	TypeEvents = "text/event-stream; charset=utf-8"
)

// Document returns an answer of one JSON document.
func Document(document any) Answer { return Answer{TypeJSON, JSON(document)} }

// Stream is the event stream of an answer. Its zero value is ready to use.
type Stream struct {
	body []byte
	// CRLF says that lines end in a carriage return and a newline.
	CRLF bool
}

// Data adds an event with a document.
func (s *Stream) Data(document any) { s.event("", JSON(document)) }

// Typed adds an event with a document and sets the document's member "type" to the name of
// the event.
func (s *Stream) Typed(name string, document map[string]any) {
	document["type"] = name
	s.event("event: "+name+s.eol(), JSON(document))
}

// Done adds the event that ends a stream of OpenAI's.
func (s *Stream) Done() { s.event("", []byte("[DONE]")) }

func (s *Stream) event(name string, data []byte) {
	s.body = slices.Concat(s.body, []byte(name+"data: "), data, []byte(s.eol()+s.eol()))
}

func (s *Stream) eol() string {
	if s.CRLF {
		return "\r\n"
	}
	return "\n"
}

// Answer returns the stream as an answer.
func (s *Stream) Answer() Answer { return Answer{TypeEvents, s.body} }

// JSON returns a document of an answer as JSON. It never fails: answers consist of
// texts and numbers.
func JSON(document any) []byte {
	text, err := json.Marshal(document)
	if err != nil {
		return []byte("{}")
	}
	return text
}

// StatusNames are a format's names of errors by HTTP status.
type StatusNames struct {
	Names map[int]string
	// Client is the name of other errors below status 500, Server of those from there.
	Client, Server string
}

// Of returns the name of an error.
func (n *StatusNames) Of(status int) string {
	if name, known := n.Names[status]; known {
		return name
	}
	if status >= http.StatusInternalServerError {
		return n.Server
	}
	return n.Client
}
