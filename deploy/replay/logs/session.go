package logs

import (
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// messages is a session as OpenAI messages.
type messages struct {
	list  []message
	size  int // bytes
	id    string
	model string
	tools jsontext.Value
}

type message struct {
	raw  jsontext.Value
	role string
}

// add appends a message.
func (m *messages) add(v jsontext.Value, role string) {
	m.list = append(m.list, message{v, role})
	m.size += len(v)
}

// roleOf returns the role of a message, or "" for what is none.
func roleOf(v jsontext.Value) (role string) {
	dec := newDecoder(v)
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return ""
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return ""
		}
		switch name.String() {
		case "role":
			if tok, err := dec.ReadToken(); err == nil && tok.Kind() == '"' {
				return tok.String()
			}
			return ""
		case "messages":
			return ""
		}
		if dec.SkipValue() != nil {
			return ""
		}
	}
	return ""
}

// readSession reads an object with messages. One that names a model and does not
// end with the model's turn is a request by itself; any other is a session.
func readSession(o object, whole jsontext.Value, out *sink) {
	list, err := readElements(o["messages"])
	if err != nil {
		out.fail(fmt.Errorf("%w: its messages are no list", ErrUnknown))
		return
	}
	s := messages{id: o.sessionID(), model: o.text("model"), tools: o["tools"]}
	for _, m := range list {
		role := roleOf(m)
		if role == "" {
			out.fail(fmt.Errorf("%w: a message without a role", ErrUnknown))
			return
		}
		s.add(m, role)
	}
	if s.model != "" && len(list) > 0 && s.list[len(list)-1].role != "assistant" {
		out.request(Request{Source: Session, Path: pathChat, Session: s.id, Model: s.model, Body: whole})
		return
	}
	s.expand(out)
}

func (o object) sessionID() string {
	for _, name := range []string{"session_id", "conversation_id", "id"} {
		if s := o.text(name); s != "" {
			return s
		}
	}
	return ""
}

// expand makes the requests of a session: one for every prefix that ends before a
// message of the assistant, and one of all if it never had a turn. All bodies
// share one buffer.
func (m *messages) expand(out *sink) {
	if len(m.list) == 0 {
		return
	}
	if m.id == "" {
		m.id = fmt.Sprintf("line-%d", out.line)
	}
	body := m.head()
	requests := 0
	request := func() {
		requests++
		end := len(body) - 1 // without the comma
		out.request(Request{Source: Session, Path: pathChat, Session: m.id, Model: m.model, Body: append(body[:end], "]}"...)})
		body = append(body[:end], ',')
	}
	for i, message := range m.list {
		if i > 0 && message.role == "assistant" {
			request()
		}
		if out.done {
			return
		}
		body = append(append(body, message.raw...), ',')
	}
	if requests == 0 && m.list[len(m.list)-1].role != "assistant" {
		request()
	}
}

// head returns the beginning of the session's bodies, up to the first message.
func (m *messages) head() []byte {
	body := []byte{'{'}
	if m.model != "" {
		name, err := json.Marshal(m.model)
		if err == nil {
			body = append(append(append(body, `"model":`...), name...), ',')
		}
	}
	if len(m.tools) > 0 {
		body = append(append(append(body, `"tools":`...), m.tools...), ',')
	}
	return append(body, `"messages":[`...)
}
