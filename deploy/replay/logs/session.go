package logs

import (
	"cmp"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// messages is a session of OpenAI messages.
type messages struct {
	list []message
	size int // bytes
	// shared is the size of those that requests have.
	shared int
	id     string
	model  string
	tools  jsontext.Value
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

// roleOf returns the role of a message, or "" if v is not a message.
func roleOf(v jsontext.Value) string {
	var m struct {
		Role     any            `json:"role"`
		Messages jsontext.Value `json:"messages"`
	}
	if json.Unmarshal(v, &m, lenient) != nil || m.Messages != nil {
		return ""
	}
	role, _ := m.Role.(string)
	return role
}

// readSession reads an object with messages. It is a single request if it names a model
// and does not end with a message of the assistant, else a session.
func readSession(o object, whole jsontext.Value, out *sink) {
	var list []jsontext.Value
	if o["messages"].Kind() != '[' || json.Unmarshal(o["messages"], &list, lenient) != nil {
		out.fail(fmt.Errorf("%w: its messages are no list", ErrUnknown))
		return
	}
	s := messages{id: cmp.Or(o.text("session_id"), o.text("conversation_id"), o.text("id")), model: o.text("model"), tools: o["tools"]}
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

// expand yields the requests of a session: one for each prefix that ends before a message
// of the assistant, or one of all messages if there is none.
func (m *messages) expand(out *sink) {
	if len(m.list) == 0 {
		return
	}
	if m.id == "" {
		m.id = fmt.Sprintf("line-%d", out.line)
	}
	c := &Conversation{}
	if len(m.tools) > 0 {
		c.Offered = `"tools":` + string(m.tools) + `,`
	}
	var added [][]byte
	requests := 0
	request := func() {
		requests++
		out.request(Request{Source: Session, Path: pathChat, Session: m.id, Model: m.model, Conversation: c, Added: added, Share: float64(m.shared) / float64(m.size)})
		added = nil
	}
	for i, message := range m.list {
		if i > 0 && message.role == "assistant" {
			request()
		}
		if out.done {
			return
		}
		added = append(added, message.raw)
		m.shared += len(message.raw)
	}
	if requests == 0 && m.list[len(m.list)-1].role != "assistant" {
		request()
	}
}
