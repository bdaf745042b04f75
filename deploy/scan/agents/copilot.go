package agents

import (
	"bytes"
	"encoding/json"
	"iter"
	"path/filepath"
	"time"
)

// copilot is GitHub's Copilot CLI, which writes an event a line.
var copilot = Agent{
	Name: "copilot", Title: "Copilot CLI", Guard: "unloop exec -- copilot",
	Folders: []string{".copilot/session-state", ".copilot/history-session-state"},
	Keeps:   func(path string) bool { return filepath.Ext(path) == ".jsonl" },
	Recognizes: func(_ string, begin []byte) bool {
		return bytes.Contains(begin, []byte(`"session.start"`)) && bytes.Contains(begin, []byte(`"producer"`))
	},
	Read: func(path string) iter.Seq2[Step, error] {
		r := &copilotReader{session: filepath.Base(path)}
		return lines(path, r.read)
	},
}

// copilotReader knows what the events before said.
type copilotReader struct {
	session, model, answer string
}

type copilotEvent struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      struct {
		SessionID string `json:"sessionId"`
		Model     string `json:"selectedModel"`
		NewModel  string `json:"newModel"`
		MessageID string `json:"messageId"`
		Content   text   `json:"content"`
		Calls     []struct {
			ID        string          `json:"toolCallId"`
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolRequests"`
		CallID  string `json:"toolCallId"`
		Success *bool  `json:"success"`
		Result  struct {
			Content text `json:"content"`
		} `json:"result"`
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
		Summary string `json:"summaryContent"`
		Input   int    `json:"inputTokens"`
		Cached  int    `json:"cacheReadTokens"`
		Output  int    `json:"outputTokens"`
	} `json:"data"`
}

func (r *copilotReader) read(line []byte, _ int, yield func(Step) bool) error {
	var e copilotEvent
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	step := Step{Session: r.session, Time: e.Timestamp, Model: r.model}
	switch e.Type {
	case "session.start":
		r.session, r.model = e.Data.SessionID, e.Data.Model
		return nil
	case "session.model_change":
		r.model = e.Data.NewModel
		return nil
	case "session.compaction_complete":
		step.Kind, step.Text = Compacted, e.Data.Summary
	case "user.message":
		step.Kind, step.Text = Said, string(e.Data.Content)
	case "assistant.message":
		r.answer = e.Data.MessageID
		step.Kind, step.ID, step.Text = Answered, r.answer, string(e.Data.Content)
		for _, c := range e.Data.Calls {
			step.Calls = append(step.Calls, Call{c.ID, c.Name, c.Arguments})
		}
	case "assistant.usage":
		step.Kind, step.ID = Answered, r.answer
		step.Usage = Usage{Input: e.Data.Input, Cached: e.Data.Cached, Output: e.Data.Output}
	case "tool.execution_complete":
		step.Kind, step.ID, step.Text = Returned, e.Data.CallID, string(e.Data.Result.Content)+e.Data.Error.Message
		step.Failed = e.Data.Success != nil && !*e.Data.Success
	default:
		return nil
	}
	yield(step)
	return nil
}
