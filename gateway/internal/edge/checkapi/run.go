package checkapi

import (
	"cmp"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/schemas/client"
)

// isRun reports whether the check is one of a tool call.
func (c *checkRequest) isRun() bool {
	t := &c.run
	return t.Tool != "" || t.Explain || t.Arguments != nil || t.Done || t.Failed != nil || t.Canceled
}

// runField reads a field of a check of a tool call.
func (c *checkRequest) runField(w *jsonwalk.Walker, name string) (err error) {
	t := &c.run
	switch name {
	case "arguments":
		t.Arguments, err = readText(w)
	case "result":
		t.Done = true
		t.Result, err = readText(w)
	case "is_error":
		var failed bool
		failed, err = readBool(w)
		t.Failed = &failed
	}
	return err
}

// readText returns the content of a string, or the JSON of any other value.
func readText(w *jsonwalk.Walker) ([]byte, error) {
	if w.Kind() == '"' {
		s, err := w.String()
		return []byte(s), err
	}
	return w.Raw()
}

// completeRun is complete for checks of tool calls.
func (c *checkRequest) completeRun() *client.Error {
	t := &c.run
	switch {
	case c.body != nil || c.prompt != nil || c.messages != nil || c.format != "" || c.method != "":
		return invalid("tool", "tool: a check of tool calls can't have body, prompt, messages, format or method")
	case c.session == "":
		return invalid("session", "session: name the session whose calls are counted together")
	case t.Explain && (t.Tool != "" || t.Arguments != nil || t.Done || t.Failed != nil || t.Canceled):
		return invalid("explain", "explain: asks about the session, without a call")
	case !t.Explain && t.Tool == "":
		return invalid("tool", "tool: name the tool that is called")
	case t.Failed != nil && !t.Done:
		return invalid("is_error", "is_error: stands beside result")
	case t.Canceled && (t.Done || c.peek):
		return invalid("cancel", "cancel: can't stand beside result or peek")
	}
	c.path = cmp.Or(c.path, chat.Format.Path)
	return c.check()
}
