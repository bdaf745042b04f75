package logs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// litellmEntry has the fields of LiteLLM's standard logging payload, which its log sinks
// write, and of its spend logs, where some have other names.
type litellmEntry struct {
	CallType  string          `json:"call_type"`
	Status    string          `json:"status"`
	StartTime json.RawMessage `json:"startTime"` // seconds, or text
	Model     string          `json:"model"`
	Messages  json.RawMessage `json:"messages"`
	Input     json.RawMessage `json:"input"`

	Parameters json.RawMessage `json:"model_parameters"`
	TraceID    string          `json:"trace_id"`
	SessionID  string          `json:"session_id"`
	APIKey     string          `json:"api_key"` // a hash
	EndUser    string          `json:"end_user"`
	TeamID     string          `json:"team_id"`
	Metadata   json.RawMessage `json:"metadata"`

	PromptTokens     int             `json:"prompt_tokens"`
	CompletionTokens int             `json:"completion_tokens"`
	Cost             float64         `json:"response_cost"`
	Spend            float64         `json:"spend"`
	ProxyRequest     json.RawMessage `json:"proxy_server_request"`
	Error            struct {
		Code any `json:"error_code"`
	} `json:"error_information"`
}

type litellmMetadata struct {
	KeyHash   string `json:"user_api_key_hash"`
	TeamID    string `json:"user_api_key_team_id"`
	EndUserID string `json:"user_api_key_end_user_id"`
	Project   string `json:"user_api_key_project_id"`
}

// litellmRequest is the request of the client, which LiteLLM's proxy may log.
type litellmRequest struct {
	URL  string          `json:"url"`
	Body json.RawMessage `json:"body"`
}

// otherCalls are parts of the names of call types that are not prompts.
var otherCalls = []string{"embedding", "image", "transcription", "speech", "moderation", "rerank", "file", "batch", "fine_tuning", "realtime", "ocr", "search", "video"}

func readLiteLLM(v []byte, out *sink) {
	var e litellmEntry
	if err := json.Unmarshal(v, &e); err != nil {
		out.fail(fmt.Errorf("read a LiteLLM log entry: %w", err))
		return
	}
	for _, other := range otherCalls {
		if strings.Contains(e.CallType, other) {
			return
		}
	}
	r := Request{
		Source: LiteLLM, Model: e.Model, Time: litellmTime(e.StartTime), Session: cmp.Or(e.SessionID, e.TraceID),
		Outcome: Outcome{InputTokens: e.PromptTokens, OutputTokens: e.CompletionTokens, USD: max(e.Cost, e.Spend), Status: e.status()},
	}
	e.identity(&r)
	var err error
	if r.Path, r.Body, err = e.request(); err != nil {
		out.fail(err)
		return
	}
	out.request(r)
}

func (e *litellmEntry) identity(r *Request) {
	var m litellmMetadata
	_ = json.Unmarshal(unwrapped(e.Metadata), &m) // metadata of another form says nothing
	r.Caller = cmp.Or(m.KeyHash, e.APIKey)
	r.Tenant = cmp.Or(m.TeamID, e.TeamID)
	r.User = cmp.Or(e.EndUser, m.EndUserID)
	r.Project = m.Project
}

func (e *litellmEntry) status() int {
	if e.Status != "failure" {
		return 200
	}
	if code, err := strconv.Atoi(fmt.Sprint(e.Error.Code)); err == nil && code >= 400 && code <= 599 {
		return code
	}
	return 500
}

// request returns the request of the client, or one that is built from the other fields.
func (e *litellmEntry) request() (path string, body []byte, err error) {
	var proxy litellmRequest
	if json.Unmarshal(unwrapped(e.ProxyRequest), &proxy) == nil {
		if o, err := readObject(unwrapped(proxy.Body)); err == nil && (o.has("messages") || o.has("input")) {
			path = e.path()
			if u, err := url.Parse(proxy.URL); err == nil && u.Path != "" && u.Path != "/" {
				path = u.RequestURI()
			}
			return path, unwrapped(proxy.Body), nil
		}
	}
	path = e.path()
	messages, err := e.messages()
	if err != nil {
		return "", nil, err
	}
	return path, e.body(path, messages), nil
}

func (e *litellmEntry) path() string {
	switch {
	case strings.Contains(e.CallType, "responses"):
		return pathResponses
	case strings.Contains(e.CallType, "anthropic_messages"):
		return pathMessages
	}
	return pathChat
}

// messages returns the list of messages. Some logs have it as text; logs without content
// have a word or an empty object in its place.
func (e *litellmEntry) messages() (json.RawMessage, error) {
	raw := e.Messages
	if len(raw) == 0 {
		raw = e.Input
	}
	raw = unwrapped(raw)
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 && !strings.Contains(string(list[0]), "redacted-by-litellm") {
		return raw, nil
	}
	var text string
	if json.Unmarshal(raw, &text) != nil || text == "" || strings.Contains(text, "redacted") {
		return nil, ErrNoMessages
	}
	return json.Marshal([]chatMessage{{Role: "user", Content: text}})
}

// body builds the body of a request.
func (e *litellmEntry) body(path string, messages json.RawMessage) []byte {
	name := "messages"
	if path == pathResponses {
		name = "input"
	}
	fields := map[string]json.RawMessage{}
	_ = json.Unmarshal(unwrapped(e.Parameters), &fields) // without parameters there are no tools
	kept := map[string]json.RawMessage{name: messages}
	for _, p := range []string{"tools", "functions", "system", "instructions", "stream"} {
		if v, ok := fields[p]; ok {
			kept[p] = v
		}
	}
	if model, err := json.Marshal(e.Model); err == nil && e.Model != "" {
		kept["model"] = model
	}
	body, err := json.Marshal(kept)
	if err != nil {
		return nil
	}
	return body
}

// unwrapped returns the JSON inside a JSON string, for logs that store it as text, else
// raw.
func unwrapped(raw json.RawMessage) json.RawMessage {
	var text string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return raw
}

// litellmTime reads seconds since 1970, or a time as text.
func litellmTime(raw json.RawMessage) time.Time {
	var seconds float64
	if json.Unmarshal(raw, &seconds) == nil && seconds > 0 && seconds < 1e12 {
		whole, fraction := math.Modf(seconds)
		return time.Unix(int64(whole), int64(fraction*1e6)*1000).UTC()
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return parseTime(text)
	}
	return time.Time{}
}

// parseTime reads a time in the formats of logs; zero if it is none.
func parseTime(text string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}
