package agents

import (
	"bytes"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// sweAgent is SWE-agent, whose trajectories have the history of messages. They have no standard
// folder.
var sweAgent = Agent{
	Name: "swe-agent", Title: "SWE-agent", Guard: "unloop exec -- sweagent run",
	Keeps:      func(string) bool { return false },
	Recognizes: func(name string, _ []byte) bool { return filepath.Ext(name) == ".traj" },
	Read: func(path, _ string) iter.Seq2[Step, error] {
		return whole(path, func(t *sweTrajectory) []Step { return t.steps(filepath.Base(path)) })
	},
}

type sweTrajectory struct {
	History []struct {
		Role    string `json:"role"`
		Content text   `json:"content"`
		Calls   []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
		CallIDs []string `json:"tool_call_ids"`
		CallID  string   `json:"tool_call_id"`
	} `json:"history"`
}

func (t *sweTrajectory) steps(session string) (all []Step) {
	for i, m := range t.History {
		step := Step{Session: session, Line: i + 1, Text: string(m.Content), Kind: Said}
		switch {
		case m.Role == "assistant":
			step.Kind, step.ID = Answered, fmt.Sprint("answer-", i)
			for _, c := range m.Calls {
				step.Calls = append(step.Calls, Call{c.ID, c.Function.Name, arguments(c.Function.Arguments)})
			}
		case m.Role == "tool" && m.CallID+strings.Join(m.CallIDs, "") != "":
			step.Kind, step.ID = Returned, m.CallID
			if step.ID == "" {
				step.ID = m.CallIDs[0]
			}
		}
		all = append(all, step)
	}
	return all
}

// arguments returns arguments as JSON. If they are not JSON, they become a string.
func arguments(s string) jsontext.Value {
	if v := jsontext.Value(s); v.IsValid(lenient) {
		return v
	}
	quoted, _ := jsontext.AppendQuote(nil, s) // invalid UTF-8 is replaced
	return quoted
}

// openHands is OpenHands, whose trajectories are lists of events: actions, and observations
// with the id of the action that caused them.
var openHands = Agent{
	Name: "openhands", Title: "OpenHands", Guard: "unloop exec -- openhands",
	Keeps: func(string) bool { return false },
	Recognizes: func(name string, begin []byte) bool {
		return filepath.Ext(name) == ".json" && bytes.HasPrefix(bytes.TrimSpace(begin), []byte("[")) && bytes.Contains(begin, []byte(`"source"`)) &&
			(bytes.Contains(begin, []byte(`"action"`)) || bytes.Contains(begin, []byte(`"observation"`)))
	},
	Read: func(path, _ string) iter.Seq2[Step, error] {
		return whole(path, func(events *[]openHandsEvent) (all []Step) {
			for i := range *events {
				if s, ok := (*events)[i].step(filepath.Base(path)); ok {
					all = append(all, s)
				}
			}
			return all
		})
	},
}

type openHandsEvent struct {
	ID          int            `json:"id"`
	Timestamp   string         `json:"timestamp"`
	Source      string         `json:"source"`
	Action      string         `json:"action"`
	Observation string         `json:"observation"`
	Content     string         `json:"content"`
	Cause       *int           `json:"cause"`
	Args        jsontext.Value `json:"args"`
	Call        struct {
		ID       string `json:"tool_call_id"`
		Function string `json:"function_name"`
		Response struct {
			ID    string `json:"id"`
			Model string `json:"model"`
			Usage struct {
				Prompt     int `json:"prompt_tokens"`
				Completion int `json:"completion_tokens"`
			} `json:"usage"`
		} `json:"model_response"`
	} `json:"tool_call_metadata"`
}

// step returns the step of an event, or false for events of the program itself.
func (e *openHandsEvent) step(session string) (Step, bool) {
	at, _ := time.Parse("2006-01-02T15:04:05", strings.SplitN(e.Timestamp, ".", 2)[0]) // zero if it has another form
	var args struct {
		Content string `json:"content"`
		Thought string `json:"thought"`
	}
	_ = decode(e.Args, &args) // other arguments have neither
	step := Step{Session: session, Line: e.ID + 1, Time: at}
	id := e.Call.ID
	if id == "" {
		id = callName(e.ID)
	}
	switch {
	case e.Observation != "" && e.Cause != nil:
		step.Kind, step.ID, step.Text = Returned, e.Call.ID, e.Content
		if step.ID == "" {
			step.ID = callName(*e.Cause)
		}
	case e.Action == "message" && e.Source == "user":
		step.Kind, step.Text = Said, args.Content
	case e.Source == "agent" && e.Action == "message":
		step.Kind, step.ID, step.Text = Answered, id, args.Content
	case e.Source == "agent" && e.Action != "" && e.Action != "system":
		r := e.Call.Response
		step.Kind, step.ID, step.Text, step.Model = Answered, r.ID, args.Thought, r.Model
		step.Usage = Usage{Input: r.Usage.Prompt, Output: r.Usage.Completion}
		if step.ID == "" {
			step.ID = id
		}
		tool := e.Call.Function
		if tool == "" {
			tool = e.Action
		}
		step.Calls = []Call{{id, tool, e.Args}}
	default:
		return Step{}, false
	}
	return step, true
}

func callName(event int) string { return fmt.Sprint("event-", event) }
