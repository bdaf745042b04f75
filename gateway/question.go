package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway/internal/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/provider/formats"
	"github.com/unloop/unloop/gateway/internal/request"
	"github.com/unloop/unloop/gateway/internal/route"
	"github.com/unloop/unloop/schemas/client"
)

// usualPaths are where requests of a format go if a check does not say.
var usualPaths = map[route.Format]string{
	route.Chat:      "/v1/chat/completions",
	route.Responses: "/v1/responses",
	route.Messages:  "/v1/messages",
}

// question is a check as client.Request describes it.
type question struct {
	format, path, method            string
	body                            []byte
	prompt, model, user             string
	messages                        []byte
	session, tenant, project        string
	requestID                       string
	peek                            bool
	hasBody, hasPrompt, hasMessages bool
	// run is set for questions about tool calls.
	run request.ToolRun

	url *url.URL
}

// readQuestion reads a check. A null is as good as nothing.
func readQuestion(text []byte) (*question, *client.Error) {
	q := &question{}
	var at string
	err := jsonwalk.Text(text, func(w *jsonwalk.Walker) error {
		if w.Kind() != '{' {
			return errors.New("must be an object")
		}
		return w.Object(func(name []byte) error {
			at = string(name)
			if err := q.field(w, at); err != nil {
				return err
			}
			at = ""
			return nil
		})
	})
	switch {
	case err == nil:
		return q, nil
	case at == "":
		return nil, invalid("", "the check: %v", err)
	default:
		return nil, invalid(at, "%s: %v", at, err)
	}
}

// invalid is the error for a check that makes no sense.
func invalid(field, format string, args ...any) *client.Error {
	return &client.Error{Status: http.StatusBadRequest, Code: "invalid_request", Field: field, Message: fmt.Sprintf(format, args...)}
}

// field reads one field, which names the fault.
func (q *question) field(w *jsonwalk.Walker, name string) (err error) {
	texts := map[string]*string{
		"format": &q.format, "path": &q.path, "method": &q.method, "model": &q.model, "user": &q.user,
		"session": &q.session, "tenant": &q.tenant, "project": &q.project, "request_id": &q.requestID, "prompt": &q.prompt,
		"tool": &q.run.Tool,
	}
	into, isText := texts[name]
	switch {
	case !isText && !slices.Contains([]string{"body", "messages", "peek", "arguments", "result", "is_error", "explain"}, name):
		return errors.New("is no field of a check; those are body, path, method, format, prompt, messages, model, user, session, tenant, project, " +
			"request_id and peek, and for tool calls tool, arguments, result, is_error and explain")
	case w.Kind() == 'n':
		return w.Skip()
	case isText && w.Kind() != '"':
		return errors.New("must be a string")
	case isText:
		*into, err = w.String()
		q.hasPrompt = q.hasPrompt || name == "prompt"
		return err
	case name == "body":
		q.hasBody = true
		q.body, err = w.Raw()
		return err
	case name == "messages":
		return q.readMessages(w)
	case name == "peek":
		q.peek, err = readBool(w)
		return err
	default:
		return setRunField(&q.run, w, name)
	}
}

func (q *question) readMessages(w *jsonwalk.Walker) (err error) {
	if w.Kind() != '[' {
		return errors.New("must be an array of Chat Completions messages")
	}
	q.hasMessages = true
	q.messages, err = w.Raw()
	if err == nil && strings.Trim(string(q.messages), "[] \t\r\n") == "" {
		return errors.New("must not be empty")
	}
	return err
}

func readBool(w *jsonwalk.Walker) (bool, error) {
	if kind := w.Kind(); kind != 't' && kind != 'f' {
		return false, errors.New("must be true or false")
	}
	return w.Bool()
}

// complete fills in what a check need not say, and refuses what contradicts
// itself.
func (q *question) complete() *client.Error {
	switch _, known := formats.ByName(q.format); {
	case asked(&q.run):
		return q.completeRun()
	case q.format != "" && !known:
		return invalid("format", "format: %q is none of %s", q.format, strings.Join(formats.Names(), ", "))
	case q.hasPrompt || q.hasMessages:
		if fault := q.expand(); fault != nil {
			return fault
		}
	case !q.hasBody && q.path == "":
		return invalid("body", "body: give the request as it would be sent, or prompt or messages")
	case q.model != "":
		return invalid("model", "model: stands beside prompt or messages; a body has its own")
	case q.user != "":
		return invalid("user", "user: stands beside prompt or messages; a body has its own")
	}
	if format, known := formats.ByName(q.format); known && q.path == "" {
		q.path = usualPaths[format]
	}
	return q.check()
}

// expand makes the Chat Completions request that prompt or messages stand for.
func (q *question) expand() *client.Error {
	chat := formats.All[route.Chat].Name()
	switch {
	case q.hasPrompt && q.hasMessages:
		return invalid("prompt", "prompt: can't stand beside messages")
	case q.hasBody:
		return invalid("body", "body: can't stand beside prompt or messages")
	case q.format != "" && q.format != chat:
		return invalid("format", "format: prompt and messages are %s; give the body of another format", chat)
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	request := struct {
		Model    string          `json:"model"`
		User     string          `json:"user,omitempty"`
		Messages json.RawMessage `json:"messages"`
	}{q.model, q.user, q.messages}
	var err error
	if q.hasPrompt {
		request.Messages, err = json.Marshal([]message{{"user", q.prompt}})
	}
	if err == nil {
		q.body, err = json.Marshal(request)
	}
	if err != nil {
		return invalid("messages", "messages: %v", err)
	}
	q.format = chat
	return nil
}

// check reads path, method and id.
func (q *question) check() *client.Error {
	if q.path == "" {
		return invalid("path", "path: say where the request would be sent, or give another format")
	}
	var err error
	q.url, err = url.ParseRequestURI(q.path)
	switch {
	case err != nil || q.path[0] != '/':
		return invalid("path", "path: %q is none; it must look like /v1/chat/completions", q.path)
	case strings.HasPrefix(q.url.Path, route.Reserved):
		return invalid("path", "path: %s is Unloop's own", route.Reserved)
	}
	if q.method == "" {
		q.method = http.MethodPost
	}
	if strings.Trim(q.method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
		return invalid("method", "method: %q is none; it must be in capitals", q.method)
	}
	if len(q.requestID) > longestID || strings.ContainsFunc(q.requestID, func(r rune) bool { return r < '!' || r > '~' }) {
		return invalid("request_id", "request_id: must be at most %d printable ASCII characters without spaces", longestID)
	}
	return nil
}

// request is the request that is asked about, with the headers of the check.
func (q *question) request(check *http.Request) *http.Request {
	r := check.Clone(check.Context())
	r.Method, r.URL, r.RequestURI = q.method, q.url, q.path
	r.Body, r.ContentLength = io.NopCloser(http.NoBody), int64(len(q.body))
	r.Header.Del("Content-Encoding")
	r.Header.Del(client.HeaderCheck)
	for name, value := range map[string]string{
		"X-Session-Id": q.session, "X-Tenant-Id": q.tenant, "X-Project-Id": q.project, "X-Request-Id": q.requestID,
	} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	return r
}
