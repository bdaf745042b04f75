package agents

import (
	"bytes"
	"iter"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// copilot is GitHub's Copilot CLI, which writes an event a line.
var copilot = Agent{
	Name: "copilot", Title: "Copilot CLI", Guard: "COPILOT_PROVIDER_API_KEY=… COPILOT_MODEL=… unloop exec -- copilot",
	Folders: []string{".copilot/session-state", ".copilot/history-session-state"}, Env: "COPILOT_HOME",
	Keeps: func(path string) bool { return filepath.Ext(path) == ".jsonl" },
	Recognizes: func(_ string, begin []byte) bool {
		return bytes.Contains(begin, []byte(`"session.start"`)) && bytes.Contains(begin, []byte(`"producer"`))
	},
	Read: func(path, _ string) iter.Seq2[Step, error] {
		r := &copilotReader{session: filepath.Base(path), answers: map[string]string{}, asked: map[string]string{}, paid: map[string]copilotUsage{}}
		return lines(path, r.read)
	},
}

// copilotReader has the state from earlier events.
type copilotReader struct {
	session, model string
	// answers has the newest answer of the agent ("") and of each sub-agent, by the call that
	// started it; asked has the prompts of these calls.
	answers, asked map[string]string
	// paid has the usage of model calls whose answers are still to come.
	paid map[string]copilotUsage
}

// mostPaid bounds the model calls whose answers are awaited. Some, such as those that name a
// session, never get one.
const mostPaid = 64

// copilotUsage is the usage of an answer. Its event follows the answer in earlier versions
// (assistant.usage) and precedes it in later ones (session.usage_record).
type copilotUsage struct {
	Call    string `json:"apiCallId"`
	Input   int    `json:"inputTokens"`
	Cached  int    `json:"cacheReadTokens"`
	Written int    `json:"cacheWriteTokens"`
	Output  int    `json:"outputTokens"`
}

func (u copilotUsage) usage() Usage {
	return Usage{Input: u.Input, Cached: u.Cached, Written: u.Written, Output: u.Output}
}

type copilotEvent struct {
	Type      string      `json:"type"`
	Timestamp time.Time   `json:"timestamp"`
	Data      copilotData `json:"data"`
}

type copilotData struct {
	SessionID string `json:"sessionId"`
	Model     string `json:"selectedModel"`
	NewModel  string `json:"newModel"`
	MessageID string `json:"messageId"`
	Parent    string `json:"parentToolCallId"` // in the events of a sub-agent
	Content   text   `json:"content"`
	Calls     []struct {
		ID        string         `json:"toolCallId"`
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	} `json:"toolRequests"`
	CallID  string `json:"toolCallId"`
	Success *bool  `json:"success"`
	Result  struct {
		Content text `json:"content"`
	} `json:"result"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
	Summary string       `json:"summaryContent"`
	Usage   copilotUsage `json:"usage"`
	copilotUsage
}

func (r *copilotReader) read(line []byte, _ int, yield func(Step) bool) error {
	var e copilotEvent
	if err := decode(line, &e); err != nil {
		return err
	}
	d := &e.Data
	step := Step{Session: r.session, Time: e.Timestamp, Model: r.model}
	if d.Parent != "" {
		step.Session += "/" + d.Parent
		if asked := r.asked[d.Parent]; asked != "" {
			delete(r.asked, d.Parent)
			begin := step
			begin.Kind, begin.Text = Said, asked
			if !yield(begin) {
				return nil
			}
		}
	}
	switch e.Type {
	case "session.start":
		r.session, r.model = d.SessionID, d.Model
		return nil
	case "session.model_change":
		r.model = d.NewModel
		return nil
	case "session.compaction_complete":
		if d.Success != nil && !*d.Success {
			return nil
		}
		step.Kind, step.Text = Compacted, d.Summary
	case "user.message":
		step.Kind, step.Text = Said, string(d.Content)
	case "assistant.message":
		r.answer(&step, d)
	case "assistant.usage":
		step.Kind, step.ID = Answered, r.answers[d.Parent]
		step.Usage = d.usage()
	case "session.usage_record":
		r.pay(d.Usage)
		return nil
	case "tool.execution_complete":
		step.Kind, step.ID, step.Text = Returned, d.CallID, string(d.Result.Content)+d.Error.Message
		step.Failed = d.Success != nil && !*d.Success
	default:
		return nil
	}
	yield(step)
	return nil
}

// answer adds an answer to its step.
func (r *copilotReader) answer(step *Step, d *copilotData) {
	r.answers[d.Parent] = d.MessageID
	step.Kind, step.ID, step.Origin, step.Text = Answered, d.MessageID, d.MessageID, string(d.Content)
	step.Usage = r.paid[d.Call].usage()
	delete(r.paid, d.Call)
	for _, c := range d.Calls {
		step.Calls = append(step.Calls, Call{c.ID, c.Name, c.Arguments})
		r.ask(c.ID, c.Arguments)
	}
}

// pay records the usage of an answer that is still to come.
func (r *copilotReader) pay(u copilotUsage) {
	if len(r.paid) >= mostPaid {
		clear(r.paid)
	}
	r.paid[u.Call] = u
}

// ask records the prompt of a call that starts a sub-agent. Other calls have none.
func (r *copilotReader) ask(id string, arguments jsontext.Value) {
	var a struct {
		Prompt string `json:"prompt"`
	}
	if decode(arguments, &a) == nil && a.Prompt != "" {
		r.asked[id] = a.Prompt
	}
}
