package agents

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"iter"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// codex is OpenAI's Codex. A rollout has the items of the Responses API in order, with the usage
// of each answer after them.
var codex = Agent{
	Name: "codex", Title: "Codex", Guard: "unloop exec -- codex",
	Folders: []string{".codex/sessions", ".codex/archived_sessions"}, Env: "CODEX_HOME",
	Keeps: isRollout,
	Recognizes: func(name string, begin []byte) bool {
		return isRollout(name) || bytes.Contains(begin, []byte(`"type":"session_meta"`))
	},
	Read: func(path, _ string) iter.Seq2[Step, error] {
		r := &codexReader{}
		r.said.SetSeed(said)
		return lines(path, func(line []byte, n int, yield func(Step) bool) error { return r.read(line, n, yield) })
	},
}

var said = maphash.MakeSeed()

func isRollout(path string) bool {
	name := filepath.Base(path)
	return strings.HasPrefix(name, "rollout-") && strings.HasSuffix(name, ".jsonl")
}

// codexReader has the state from earlier lines.
type codexReader struct {
	session, model string
	// answer numbers answers: all items until a result or a message are one.
	answer int
	// spoken is the id of the newest answer. Its usage may come after a result.
	spoken string
	// said is a hash of all items so far, and called says that one has a call's id. A forked
	// session begins with the items of another, under its own name and times.
	said   maphash.Hash
	called bool
}

type codexLine struct {
	Timestamp time.Time `json:"timestamp"`
	Type      string    `json:"type"`
	Payload   codexItem `json:"payload"`
}

type codexItem struct {
	Type      string         `json:"type"`
	ID        string         `json:"id"`
	Role      string         `json:"role"`
	Model     string         `json:"model"`
	Content   text           `json:"content"`
	Name      string         `json:"name"`
	Arguments string         `json:"arguments"`
	Input     string         `json:"input"`
	Action    jsontext.Value `json:"action"`
	CallID    string         `json:"call_id"`
	Output    jsontext.Value `json:"output"`
	Message   string         `json:"message"`
	Info      struct {
		Last struct {
			Input  int `json:"input_tokens"`
			Cached int `json:"cached_input_tokens"`
			Output int `json:"output_tokens"`
		} `json:"last_token_usage"`
	} `json:"info"`
}

func (r *codexReader) read(line []byte, n int, yield func(Step) bool) error {
	var l codexLine
	if err := decode(line, &l); err != nil {
		return err
	}
	p := &l.Payload
	step := Step{Session: r.session, Time: l.Timestamp, Model: r.model}
	switch l.Type {
	case "session_meta":
		if r.session == "" { // that of the session it was forked from may follow
			r.session = p.ID
		}
	case "turn_context":
		r.model = p.Model
	case "compacted":
		step.Kind, step.Text = Compacted, p.Message
		r.hash(p.Type, p.Message)
		yield(step)
	case "event_msg":
		if p.Type == "token_count" && p.Info.Last.Input > 0 {
			u := p.Info.Last
			step.Kind, step.ID, step.Usage = Answered, r.spoken, Usage{Input: u.Input, Cached: u.Cached, Output: u.Output}
			yield(step)
		}
	case "response_item":
		r.item(step, p, n, yield)
	}
	return nil
}

func (r *codexReader) answerID() string { return fmt.Sprintf("%s/%d", r.session, r.answer) }

// item yields the step of an item of the Responses API.
func (r *codexReader) item(step Step, p *codexItem, n int, yield func(Step) bool) {
	switch {
	case strings.HasSuffix(p.Type, "_call_output"):
		r.answer = n
		step.Kind, step.ID = Returned, p.CallID
		step.Text, step.Failed = codexOutput(p.Output)
	case p.Type == "message" && p.Role == "user":
		r.answer = n
		step.Kind, step.Text = Said, string(p.Content)
	case p.Type == "message" && p.Role == "assistant":
		step.Kind, step.ID, step.Text = Answered, r.answerID(), string(p.Content)
	case strings.HasSuffix(p.Type, "_call") && p.CallID != "":
		step.Kind, step.ID = Answered, r.answerID()
		step.Calls = []Call{{p.CallID, codexTool(p), codexArguments(p)}}
	default:
		return
	}
	r.hash(p.Type, p.CallID, step.Text)
	for _, c := range step.Calls {
		r.hash(c.Tool, string(c.Arguments))
		r.called = true
	}
	if step.Kind == Answered {
		r.spoken = step.ID
		if r.called { // the provider's ids distinguish it from equal words of another session
			step.Origin = strconv.FormatUint(r.said.Sum64(), 36)
		}
	}
	yield(step)
}

func (r *codexReader) hash(all ...string) {
	for _, s := range all {
		_, _ = r.said.WriteString(s) // never fails
		_ = r.said.WriteByte(0)
	}
}

func codexTool(p *codexItem) string {
	if p.Name != "" {
		return p.Name
	}
	return strings.TrimSuffix(p.Type, "_call")
}

func codexArguments(p *codexItem) jsontext.Value {
	switch {
	case len(p.Action) > 0:
		return p.Action
	case p.Arguments != "":
		return arguments(p.Arguments)
	}
	return arguments(p.Input)
}

// codexOutput returns the text of an output: a string, or an object that says whether the call
// succeeded.
func codexOutput(output jsontext.Value) (out string, failed bool) {
	var object struct {
		Content text  `json:"content"`
		Success *bool `json:"success"`
	}
	if bytes.HasPrefix(output, []byte("{")) && decode(output, &object) == nil {
		return string(object.Content), object.Success != nil && !*object.Success
	}
	var t text
	_ = decode(output, &t) // any value has a text
	return string(t), false
}
