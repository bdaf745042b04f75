package scan

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unloop/unloop/deploy/replay/logs"
	"github.com/unloop/unloop/deploy/scan/agents"
)

// requests turns the steps of a file into requests of Anthropic's Messages API: one for each
// answer, with everything before it. Errors keep their places.
func requests(agent string, steps iter.Seq2[agents.Step, error]) iter.Seq2[logs.Request, error] {
	return func(yield func(logs.Request, error) bool) {
		w := &writer{agent: agent, yield: yield, conversations: map[string]*conversation{}}
		for s, err := range steps {
			switch {
			case err != nil:
				w.done = w.done || !yield(logs.Request{}, err)
			case s.Kind == agents.Ended:
				w.end(s.Session)
			default:
				w.conversation(s.Session).add(&s)
			}
			if w.done {
				return
			}
		}
		for _, session := range slices.Sorted(maps.Keys(w.conversations)) {
			w.end(session)
		}
	}
}

// writer yields the requests of all conversations of a file.
type writer struct {
	agent         string
	yield         func(logs.Request, error) bool
	done          bool
	conversations map[string]*conversation
	answers       int
}

func (w *writer) conversation(session string) *conversation {
	c := w.conversations[session]
	if c == nil {
		c = &conversation{writer: w, session: session}
		c.begin()
		w.conversations[session] = c
	}
	return c
}

// end ends a conversation.
func (w *writer) end(session string) {
	if c := w.conversations[session]; c != nil {
		c.flush()
		c.answered()
		delete(w.conversations, session)
	}
}

// conversation is the history of one agent.
type conversation struct {
	*writer
	session, model string
	history        *logs.Conversation
	spoken         bool      // the history has a message
	added          [][]byte  // messages that no request has yet
	at, sent       time.Time // of the newest message, and of the newest request
	line           int
	read           int64 // bytes of the file with the newest step
	// open is the answer that is being read, or nil; unpaid is the one before, whose usage may
	// still come.
	open, unpaid *answer
	results      []byte // the message with the newest results, without its end
}

// answer is an answer of the model.
type answer struct {
	id, origin, sent string
	end              time.Time
	usage            agents.Usage
	text             string
	calls            []agents.Call
}

// block is a content block, other than a result.
type block struct {
	Type  string         `json:"type"`
	Text  string         `json:"text,omitzero"`
	ID    string         `json:"id,omitzero"`
	Name  string         `json:"name,omitzero"`
	Input jsontext.Value `json:"input,omitzero"`
}

// begin begins the history anew.
func (c *conversation) begin() {
	c.history, c.added, c.results, c.spoken = &logs.Conversation{Members: `"max_tokens":1,`}, nil, nil, false
}

func (c *conversation) add(s *agents.Step) {
	if c.read = s.Read; s.Model != "" {
		c.model = s.Model
	}
	switch s.Kind {
	case agents.Answered:
		c.piece(s)
		return
	case agents.Compacted:
		c.flush()
		c.begin()
		c.message("user", []block{{Type: "text", Text: cmp.Or(s.Text, "…")}}) // some agents keep no summary
	case agents.Said:
		c.flush()
		c.endResults()
		c.message("user", []block{{Type: "text", Text: s.Text}})
	case agents.Returned:
		c.flush()
		c.result(s)
	}
	c.at, c.line = s.Time, s.Line
}

// piece adds a piece of an answer. The pieces of an answer follow each other, except its usage.
func (c *conversation) piece(s *agents.Step) {
	if c.unpaid != nil && c.unpaid.id == s.ID && (c.open == nil || c.open.id != s.ID) {
		if s.Usage != (agents.Usage{}) {
			c.unpaid.usage = s.Usage
		}
		if late := (answer{text: s.Text, calls: s.Calls}); late.text != "" || len(late.calls) > 0 { // after a result of the same answer
			c.endResults()
			c.message("assistant", late.blocks())
		}
		return
	}
	if c.open == nil || c.open.id != s.ID {
		c.flush()
		c.open = &answer{id: s.ID, origin: s.Origin}
	}
	a := c.open
	a.text += s.Text
	a.calls = append(a.calls, s.Calls...)
	a.end = s.Time
	if s.Usage != (agents.Usage{}) {
		a.usage = s.Usage
	}
}

// flush sends the request of the open answer, and adds the answer to the history.
func (c *conversation) flush() {
	a := c.open
	if a == nil {
		return
	}
	c.open = nil
	c.answered()
	c.endResults()
	if c.spoken {
		c.answers++
		a.sent = fmt.Sprint("answer-", c.answers)
		if c.at.IsZero() {
			c.at = a.end
		}
		if c.at.After(c.sent) { // the requests of a conversation keep their order
			c.sent = c.at
		}
		c.send(logs.Request{
			ID: a.sent, Origin: a.origin, Time: c.sent, Method: "POST", Path: "/v1/messages",
			Caller: c.agent, Session: c.session, Model: c.model, Conversation: c.history, Added: c.added,
		})
		c.added, c.unpaid = nil, a
	}
	c.message("assistant", a.blocks())
	c.at = a.end
}

// blocks returns the content of the answer.
func (a *answer) blocks() []block {
	blocks := make([]block, 0, 1+len(a.calls))
	if a.text != "" {
		blocks = append(blocks, block{Type: "text", Text: a.text})
	}
	for _, call := range a.calls {
		blocks = append(blocks, block{Type: "tool_use", ID: call.ID, Name: call.Tool, Input: object(call.Arguments)})
	}
	return blocks
}

// answered sends the outcome of the answer whose usage was waited for.
func (c *conversation) answered() {
	a := c.unpaid
	if a == nil {
		return
	}
	c.unpaid = nil
	u := a.usage
	c.send(logs.Request{Time: a.end, Answer: &logs.Answer{
		To: a.sent, Outcome: logs.Outcome{Status: 200, InputTokens: u.Input, CachedTokens: u.Cached, WrittenTokens: u.Written, WrittenHourTokens: u.WrittenHour, OutputTokens: u.Output, USD: u.USD},
	}})
}

// result adds the result of a call to the message of its results.
func (c *conversation) result(s *agents.Step) {
	begin := `,{"type":"tool_result"`
	if len(c.results) == 0 {
		begin = `{"role":"user","content":[{"type":"tool_result"`
	}
	out := append(slices.Grow(c.results, len(begin)+len(s.Text)+len(s.Quoted)+256), begin...)
	if s.ID != "" {
		out, _ = jsontext.AppendQuote(append(out, `,"tool_use_id":`...), s.ID) // the error is that of what is replaced
	}
	if s.Text != "" {
		out, _ = jsontext.AppendQuote(append(out, `,"content":`...), s.Text)
	} else if len(s.Quoted) > len(`""`) {
		out = append(append(out, `,"content":`...), s.Quoted...)
	}
	if s.Failed {
		out = append(out, `,"is_error":true`...)
	}
	out = append(out, '}')
	c.results = out
}

func (c *conversation) endResults() {
	if len(c.results) > 0 {
		c.added, c.spoken, c.results = append(c.added, append(c.results, `]}`...)), true, nil
	}
}

func (c *conversation) send(q logs.Request) {
	q.Source, q.Line, q.Read = logs.Session, c.line, c.read
	c.done = c.done || !c.yield(q, nil)
}

// message appends a message to the history.
func (c *conversation) message(role string, content []block) {
	if len(content) == 0 {
		return
	}
	text, err := json.Marshal(struct {
		Role    string  `json:"role"`
		Content []block `json:"content"`
	}{role, content}, asWritten)
	if err == nil { // arguments that are not JSON were made strings
		c.added, c.spoken = append(c.added, text), true
	}
}

// asWritten leaves arguments as agents wrote them.
var asWritten = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))

// object returns arguments as an object, which the API requires.
func object(arguments jsontext.Value) jsontext.Value {
	switch {
	case len(arguments) == 0:
		return jsontext.Value(`{}`)
	case arguments[0] == '{':
		return arguments
	}
	return fmt.Appendf(nil, `{"input":%s}`, arguments)
}
