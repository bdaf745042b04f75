package agents

import (
	"bytes"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// gemini is the Gemini CLI. It writes a line for each message, and an answer again once its calls
// have results. Earlier versions wrote one document for each chat.
var gemini = Agent{
	Name: "gemini", Title: "Gemini CLI", Guard: "unloop exec -- gemini",
	Folders: []string{".gemini/tmp"},
	Keeps: func(path string) bool {
		return filepath.Base(filepath.Dir(path)) == "chats" && strings.HasPrefix(filepath.Ext(path), ".json")
	},
	Recognizes: func(_ string, begin []byte) bool {
		return bytes.Contains(begin, []byte(`"projectHash"`)) && bytes.Contains(begin, []byte(`"startTime"`))
	},
	Read: func(path, _ string) iter.Seq2[Step, error] {
		r := &geminiReader{}
		if filepath.Ext(path) == ".json" {
			return whole(path, func(chat *geminiLine) []Step { return r.all(chat.Messages, chat.Session) })
		}
		return lines(path, r.read)
	},
}

// geminiReader has the session and the newest answer.
type geminiReader struct {
	session string
	last    *geminiMessage
}

type geminiLine struct {
	geminiMessage
	Session  string          `json:"sessionId"`
	Messages []geminiMessage `json:"messages"`
	Set      struct {
		Messages []geminiMessage `json:"messages"`
	} `json:"$set"`
}

type geminiMessage struct {
	ID        string         `json:"id"`
	Timestamp time.Time      `json:"timestamp"`
	Type      string         `json:"type"`
	Content   jsontext.Value `json:"content"`
	Model     string         `json:"model"`
	Tokens    struct {
		Input    int `json:"input"`
		Cached   int `json:"cached"`
		Output   int `json:"output"`
		Thoughts int `json:"thoughts"`
	} `json:"tokens"`
	Calls []struct {
		ID        string         `json:"id"`
		Name      string         `json:"name"`
		Args      jsontext.Value `json:"args"`
		Status    string         `json:"status"`
		Timestamp time.Time      `json:"timestamp"`
		Result    []struct {
			Function struct {
				Response struct {
					Output text `json:"output"`
					Error  text `json:"error"`
				} `json:"response"`
			} `json:"functionResponse"`
		} `json:"result"`
	} `json:"toolCalls"`
}

func (r *geminiReader) read(line []byte, _ int, yield func(Step) bool) error {
	var l geminiLine
	if err := decode(line, &l); err != nil {
		return err
	}
	if l.Session != "" {
		r.session = l.Session
	}
	for _, s := range r.all(append(l.Set.Messages, l.geminiMessage), r.session) {
		if !yield(s) {
			break
		}
	}
	return nil
}

func (r *geminiReader) all(messages []geminiMessage, session string) (all []Step) {
	for i := range messages {
		all = append(all, r.steps(&messages[i], session)...)
	}
	return all
}

// steps returns the steps of a message. An answer that comes again has results of its calls.
func (r *geminiReader) steps(m *geminiMessage, session string) (all []Step) {
	step := Step{Session: session, Time: m.Timestamp}
	switch m.Type {
	case "user":
		var t text
		if decode(m.Content, &t) == nil && t != "" && !bytes.Contains(m.Content, []byte(`"functionResponse"`)) {
			step.Kind, step.Text = Said, string(t)
			all = append(all, step)
		}
	case "gemini":
		var t text
		_ = decode(m.Content, &t) // any value has a text
		step.Kind, step.ID, step.Origin, step.Model = Answered, m.ID, m.ID, m.Model
		step.Usage = Usage{Input: m.Tokens.Input, Cached: m.Tokens.Cached, Output: m.Tokens.Output + m.Tokens.Thoughts}
		if r.last == nil || r.last.ID != m.ID {
			step.Text = string(t)
		}
		known := map[string]bool{}
		if r.last != nil && r.last.ID == m.ID {
			for _, c := range r.last.Calls {
				known[c.ID] = true
			}
		}
		var results []Step
		for _, c := range m.Calls {
			if known[c.ID] {
				continue
			}
			step.Calls = append(step.Calls, Call{c.ID, c.Name, c.Args})
			result := Step{Kind: Returned, Session: session, Time: c.Timestamp, ID: c.ID, Failed: c.Status == "error"}
			for _, part := range c.Result {
				result.Text += string(part.Function.Response.Output + part.Function.Response.Error)
			}
			results = append(results, result)
		}
		all = append(append(all, step), results...)
		r.last = m
	}
	return all
}
