package checkapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/client"
)

// envelope is the size of a check, in bytes, beyond that of the largest inspected body.
const envelope = 64 << 10

// copies is the number of copies that are made of a check's text: MCP messages and their
// arguments, or the request for prompt or messages and its parsed form.
const copies = 2

// Reader reads checks.
type Reader struct {
	Table *route.Table
	// MaxBytes bounds a described body.
	MaxBytes int64
}

// Read reads a check, and returns the request that it describes.
func (rd Reader) Read(r *http.Request) (*Described, *client.Error) {
	text, fault := rd.Text(r)
	if fault != nil {
		return nil, fault
	}
	return rd.parse(r, text)
}

// parse returns the request that the text of a check describes.
func (rd Reader) parse(r *http.Request, text []byte) (*Described, *client.Error) {
	c, fault := parse(text)
	if fault != nil {
		return nil, fault
	}
	return rd.describe(r, c)
}

// Text reads the body of a request up to a bound.
func (rd Reader) Text(r *http.Request) ([]byte, *client.Error) {
	text, err := io.ReadAll(io.LimitReader(copied(r), rd.MaxBytes+envelope+1))
	switch {
	case errors.Is(err, intake.ErrNoRoom):
		refusal := intake.Refusal(err)
		return nil, &client.Error{Status: refusal.Status, Code: refusal.Code, Message: refusal.Message}
	case err != nil:
		return nil, &client.Error{Status: http.StatusBadRequest, Code: "incomplete_body", Message: "the check's body ended early"}
	case int64(len(text)) > rd.MaxBytes+envelope:
		return nil, rd.tooLarge()
	}
	return text, nil
}

// copied returns the body of a request. Reading it also reserves memory for its copies.
func copied(r *http.Request) io.ReadCloser {
	if u := intake.Held(r); u != nil {
		return counted{u}
	}
	return r.Body
}

// counted is a body that is copied.
type counted struct{ *intake.Upload }

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Upload.Read(p)
	if short := c.Take(copies * n); short != nil {
		err = short
	}
	return n, err
}

// describe returns the request that a check describes. It needs no upstream.
func (rd Reader) describe(r *http.Request, c *checkRequest) (*Described, *client.Error) {
	c.session = cmp.Or(c.session, r.Header.Get("X-Session-Id"))
	if fault := c.complete(); fault != nil {
		return nil, fault
	}
	if int64(len(c.body)) > rd.MaxBytes {
		return nil, rd.tooLarge()
	}
	r = c.request(r)
	target, _ := rd.Table.Route(r)
	if format, known := formats.ByName(c.format); known {
		target.Format = format
	}
	d := &Described{HTTP: r, Request: request.New(r, target)}
	d.Body, d.DecisionOnly, d.Peek, d.Probe = &request.Body{Bytes: c.body, Length: int64(len(c.body))}, !c.peek, c.peek, c.probe
	if c.isRun() {
		d.Run, d.Prompt = &c.run, &provider.Prompt{Model: c.model, User: c.user}
	}
	return d, nil
}

func (rd Reader) tooLarge() *client.Error {
	return &client.Error{
		Status: http.StatusRequestEntityTooLarge, Code: "body_too_large", Field: "body",
		Message: "body: larger than the " + strconv.FormatInt(rd.MaxBytes, 10) + " bytes of --max-inspect-bytes",
	}
}

// checkRequest is a check as client.Request and client.ToolRequest describe it.
type checkRequest struct {
	format, path, method     string
	body, messages           []byte  // nil if absent
	prompt                   *string // nil if absent
	model, user              string
	session, tenant, project string
	requestID                string
	peek, probe              bool
	// run is set for checks of tool calls.
	run request.ToolRun

	url *url.URL
}

// parse reads a check. Null fields count as absent.
func parse(text []byte) (*checkRequest, *client.Error) {
	c := &checkRequest{}
	var at string
	err := jsonwalk.Text(text, func(w *jsonwalk.Walker) error {
		if w.Kind() != '{' {
			return errors.New("must be an object")
		}
		return w.Object(func(name []byte) error {
			at = string(name)
			if err := c.field(w, at); err != nil {
				return err
			}
			at = ""
			return nil
		})
	})
	switch {
	case err == nil:
		return c, nil
	case at == "":
		return nil, invalid("", "the check: %v", err)
	default:
		return nil, invalid(at, "%s: %v", at, err)
	}
}

// invalid returns the error for an invalid check.
func invalid(field, format string, args ...any) *client.Error {
	return &client.Error{Status: http.StatusBadRequest, Code: "invalid_request", Field: field, Message: fmt.Sprintf(format, args...)}
}

// field reads the field with a name.
func (c *checkRequest) field(w *jsonwalk.Walker, name string) (err error) {
	texts := map[string]*string{
		"format": &c.format, "path": &c.path, "method": &c.method, "model": &c.model, "user": &c.user,
		"session": &c.session, "tenant": &c.tenant, "project": &c.project, "request_id": &c.requestID, "prompt": new(string),
		"tool": &c.run.Tool,
	}
	flags := map[string]*bool{"peek": &c.peek, "probe": &c.probe, "explain": &c.run.Explain, "cancel": &c.run.Canceled}
	into, isText := texts[name]
	flag, isFlag := flags[name]
	switch {
	case !isText && !isFlag && !slices.Contains([]string{"body", "messages", "arguments", "result", "is_error"}, name):
		return errors.New("is no field of a check; those are body, path, method, format, prompt, messages, model, user, session, tenant, project, " +
			"request_id, peek and probe, and for tool calls tool, arguments, result, is_error, cancel and explain")
	case w.Kind() == 'n':
		return w.Skip()
	case isText && w.Kind() != '"':
		return errors.New("must be a string")
	case isText:
		if name == "prompt" {
			c.prompt = into
		}
		*into, err = w.String()
		return err
	case name == "body":
		c.body, err = w.Raw()
		return err
	case name == "messages":
		return c.readMessages(w)
	case isFlag:
		*flag, err = readBool(w)
		return err
	default:
		return c.runField(w, name)
	}
}

func (c *checkRequest) readMessages(w *jsonwalk.Walker) (err error) {
	if w.Kind() != '[' {
		return errors.New("must be an array of Chat Completions messages")
	}
	c.messages, err = w.Raw()
	if err == nil && strings.Trim(string(c.messages), "[] \t\r\n") == "" {
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

// complete fills in omitted fields, and returns an error for fields that contradict each
// other.
func (c *checkRequest) complete() *client.Error {
	switch _, known := formats.ByName(c.format); {
	case c.isRun():
		return c.completeRun()
	case c.format != "" && !known:
		return invalid("format", "format: %q is none of %s", c.format, strings.Join(formats.Names(), ", "))
	case c.prompt != nil || c.messages != nil:
		if fault := c.expand(); fault != nil {
			return fault
		}
	case c.body == nil && c.path == "":
		return invalid("body", "body: give the request as it would be sent, or prompt or messages")
	case c.model != "":
		return invalid("model", "model: stands beside prompt or messages; a body has its own")
	case c.user != "":
		return invalid("user", "user: stands beside prompt or messages; a body has its own")
	}
	if format, known := formats.ByName(c.format); known && c.path == "" {
		c.path = format.Path
	}
	return c.check()
}

// expand sets the body to the Chat Completions request for prompt or messages.
func (c *checkRequest) expand() *client.Error {
	chat := chat.Format.Name()
	switch {
	case c.prompt != nil && c.messages != nil:
		return invalid("prompt", "prompt: can't stand beside messages")
	case c.body != nil:
		return invalid("body", "body: can't stand beside prompt or messages")
	case c.format != "" && c.format != chat:
		return invalid("format", "format: prompt and messages are %s; give the body of another format", chat)
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	chatRequest := struct {
		Model    string          `json:"model"`
		User     string          `json:"user,omitempty"`
		Messages json.RawMessage `json:"messages"`
	}{c.model, c.user, c.messages}
	var err error
	if c.prompt != nil {
		chatRequest.Messages, err = json.Marshal([]message{{"user", *c.prompt}})
	}
	if err == nil {
		c.body, err = json.Marshal(chatRequest)
	}
	if err != nil {
		return invalid("messages", "messages: %v", err)
	}
	c.format = chat
	return nil
}

// check validates path, method and id.
func (c *checkRequest) check() *client.Error {
	if c.path == "" {
		return invalid("path", "path: say where the request would be sent, or give another format")
	}
	var err error
	c.url, err = url.ParseRequestURI(c.path)
	switch {
	case err != nil || c.path[0] != '/':
		return invalid("path", "path: %q is none; it must look like /v1/chat/completions", c.path)
	case strings.HasPrefix(c.url.Path, route.Reserved):
		return invalid("path", "path: %s is Unloop's own", route.Reserved)
	}
	if c.method = cmp.Or(c.method, http.MethodPost); !isMethod(c.method) {
		return invalid("method", "method: %q is none; it must be in capitals", c.method)
	}
	if len(c.requestID) > request.MaxID || strings.ContainsFunc(c.requestID, func(r rune) bool { return r < '!' || r > '~' }) {
		return invalid("request_id", "request_id: must be at most %d printable ASCII characters without spaces", request.MaxID)
	}
	return nil
}

// request returns the described request, with the headers of the check.
func (c *checkRequest) request(check *http.Request) *http.Request {
	r := check.Clone(check.Context())
	r.Method, r.URL, r.RequestURI = c.method, c.url, c.path
	r.Body, r.ContentLength = io.NopCloser(http.NoBody), int64(len(c.body))
	r.Header.Del("Content-Encoding")
	r.Header.Del(client.HeaderCheck)
	for name, value := range map[string]string{
		"X-Session-Id": c.session, "X-Tenant-Id": c.tenant, "X-Project-Id": c.project, "X-Request-Id": c.requestID,
	} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	return r
}

// isMethod reports whether a text has the form of an HTTP method.
func isMethod(s string) bool { return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "" }
