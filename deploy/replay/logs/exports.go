package logs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// langfuseEntry is an observation of Langfuse's exports, or a trace with its observations.
type langfuseEntry struct {
	Type         string          `json:"type"`
	TraceID      string          `json:"traceId"`
	SessionID    string          `json:"sessionId"`
	UserID       string          `json:"userId"`
	StartTime    time.Time       `json:"startTime"`
	Model        string          `json:"model"`
	Level        string          `json:"level"`
	Input        json.RawMessage `json:"input"`
	Parameters   json.RawMessage `json:"modelParameters"`
	Cost         float64         `json:"calculatedTotalCost"`
	TotalCost    float64         `json:"totalCost"`
	Observations []langfuseEntry `json:"observations"`
	Details      struct {
		Input  int `json:"input"`
		Cached int `json:"input_cached_tokens"`
		Output int `json:"output"`
	} `json:"usageDetails"`
	Usage struct {
		Input  int `json:"input"`
		Output int `json:"output"`
	} `json:"usage"`
}

func readLangfuse(v []byte, out *sink) {
	var e langfuseEntry
	if err := json.Unmarshal(v, &e); err != nil {
		out.fail(fmt.Errorf("read a Langfuse export: %w", err))
		return
	}
	for i := range e.Observations {
		o := &e.Observations[i]
		o.SessionID, o.UserID = cmp.Or(o.SessionID, e.SessionID), cmp.Or(o.UserID, e.UserID)
		o.read(out)
	}
	if len(e.Observations) == 0 {
		e.read(out)
	}
}

// read yields the request of a generation. Other observations are none.
func (e *langfuseEntry) read(out *sink) {
	if !strings.EqualFold(e.Type, "generation") {
		return
	}
	body, err := chatBody(e.Model, e.Input)
	if err != nil {
		out.fail(err)
		return
	}
	status := 200
	if e.Level == "ERROR" {
		status = 500
	}
	out.request(Request{
		Source: Langfuse, Path: pathChat, Time: e.StartTime, Session: cmp.Or(e.SessionID, e.TraceID), User: e.UserID, Model: e.Model, Body: body,
		Outcome: Outcome{
			Status: status, InputTokens: cmp.Or(e.Details.Input+e.Details.Cached, e.Usage.Input), CachedTokens: e.Details.Cached,
			OutputTokens: cmp.Or(e.Details.Output, e.Usage.Output), USD: max(e.Cost, e.TotalCost),
		},
	})
}

// chatBody returns the body of a Chat Completions request from its messages, or from an
// object that has them.
func chatBody(model string, input json.RawMessage) ([]byte, error) {
	var object struct {
		Messages json.RawMessage `json:"messages"`
		Tools    json.RawMessage `json:"tools,omitempty"`
	}
	if json.Unmarshal(input, &object) != nil {
		object.Messages = input
	}
	var list []json.RawMessage
	if json.Unmarshal(object.Messages, &list) != nil || len(list) == 0 {
		return nil, ErrNoMessages
	}
	return json.Marshal(struct {
		Model    string          `json:"model,omitempty"`
		Messages json.RawMessage `json:"messages"`
		Tools    json.RawMessage `json:"tools,omitempty"`
	}{model, object.Messages, object.Tools})
}

// heliconeEntry is a request of Helicone's exports.
type heliconeEntry struct {
	CreatedAt  time.Time         `json:"request_created_at"`
	Path       string            `json:"request_path"`
	Model      string            `json:"request_model"`
	UserID     string            `json:"request_user_id"`
	Body       json.RawMessage   `json:"request_body"`
	Status     int               `json:"response_status"`
	Prompt     int               `json:"prompt_tokens"`
	Cached     int               `json:"prompt_cache_read_tokens"`
	Completion int               `json:"completion_tokens"`
	Cost       float64           `json:"cost"`
	Properties map[string]string `json:"request_properties"`
}

func readHelicone(v []byte, out *sink) {
	var e heliconeEntry
	if err := json.Unmarshal(v, &e); err != nil {
		out.fail(fmt.Errorf("read a Helicone export: %w", err))
		return
	}
	if len(e.Body) == 0 || e.Body[0] != '{' {
		out.fail(ErrNoMessages)
		return
	}
	session := ""
	for name, value := range e.Properties {
		if strings.EqualFold(name, "Helicone-Session-Id") {
			session = value
		}
	}
	path := pathChat
	switch {
	case strings.Contains(e.Path, pathMessages):
		path = pathMessages
	case strings.Contains(e.Path, pathResponses):
		path = pathResponses
	}
	out.request(Request{
		Source: Helicone, Path: path, Time: e.CreatedAt, Session: session, User: e.UserID, Model: e.Model, Body: e.Body,
		Outcome: Outcome{Status: e.Status, InputTokens: e.Prompt, CachedTokens: e.Cached, OutputTokens: e.Completion, USD: e.Cost},
	})
}
