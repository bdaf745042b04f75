package provider

import (
	"encoding/json"
	"errors"
	"net/url"
	"time"
)

// ErrNoAnswer says that a request can't be answered with a text in the model's
// place.
var ErrNoAnswer = errors.New("no answer in the model's place")

// Reply is a text in place of a model's.
type Reply struct {
	// ID is unique among answers, in letters and digits.
	ID   string
	Text string
	At   time.Time
	// URL is where the request went, which in some formats says what form the
	// answer has.
	URL *url.URL
}

// Answer is an answer of status 200.
type Answer struct {
	ContentType string
	Body        []byte
}

// Answerable says whether a text in the model's place is of use to the client. It
// is not where the answer must be data, nor where the provider keeps the history:
// it would not know the answer that the next request goes on from, nor the results
// that this one brought.
func (p *Prompt) Answerable() bool { return p != nil && !p.Structured && !p.Delta }

// Content types of answers.
const (
	TypeJSON   = "application/json"
	TypeEvents = "text/event-stream; charset=utf-8"
)

// Document is an answer of one JSON document.
func Document(document any) Answer { return Answer{TypeJSON, quoteJSON(document)} }

// Event appends an event of a stream; the name may be empty. Lines end in eol.
func Event(dst []byte, name, eol string, document any) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), eol...)
	}
	dst = append(append(dst, "data: "...), quoteJSON(document)...)
	return append(append(dst, eol...), eol...)
}

// quoteJSON never fails: answers are made of texts and numbers.
func quoteJSON(document any) []byte {
	text, err := json.Marshal(document)
	if err != nil {
		return []byte("{}")
	}
	return text
}
