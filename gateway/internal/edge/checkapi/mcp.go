package checkapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/client"
)

// mcpVersion is the version of the tools.
const mcpVersion = "0.1.0"

const checkDescription = "Ask before making a tool call whether it goes round in circles, and again with its result. " +
	"Answers allow, warn, block or break, with a message and counts. Do not make a call that is blocked: read the message and take a different approach."

const explainDescription = "Explain what is known of a session's tool calls: how many there were, which one repeats itself, and what was found. Changes nothing."

const sessionSchema = `"session": {"type": "string", "description": "Names the agent whose calls are counted together; the header X-Session-Id if absent."},
	"tenant": {"type": "string"}, "project": {"type": "string"}, "user": {"type": "string", "description": "The end user, where many share one key."}`

const checkSchema = `{"type": "object", "required": ["tool"], "properties": {` + sessionSchema + `,
	"tool": {"type": "string", "description": "The tool's name."},
	"arguments": {"description": "The call's arguments: an object, or a string that holds JSON."},
	"result": {"description": "What the tool answered, text or JSON; absent before the call is made."},
	"is_error": {"type": "boolean", "description": "Whether the result is an error; if absent, it is told by its text."},
	"cancel": {"type": "boolean", "description": "The call that was asked about is not made after all, and counts no longer."},
	"peek": {"type": "boolean", "description": "Ask what would happen, and count nothing."}}}`

const explainSchema = `{"type": "object", "properties": {` + sessionSchema + `}}`

// principalKey is the key of the client's identity in the context of an MCP request.
type principalKey struct{}

// newMCP returns the handler of the MCP server over streamable HTTP. It is stateless, so that
// any gateway can answer any message.
func (a *API) newMCP() http.Handler {
	return mcp.NewStreamableHTTPHandler(a.mcpServer, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: a.cfg.Reader.MaxBytes + envelope,
		DisableLocalhostProtection: true, // the gateway's own check knows --allow-host
	})
}

// answerMCP admits a client and answers its message.
func (a *API) answerMCP(w http.ResponseWriter, r *http.Request) {
	d := &Described{HTTP: r, Request: request.New(r, route.Target{Format: chat.Format})}
	if a.admit(w, d) {
		r.Body = copied(r)
		a.mcp.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, d.Client)))
	}
}

// mcpServer returns the server for one HTTP request, whose headers identify the client.
func (a *API) mcpServer(r *http.Request) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "unloop", Title: "Unloop", Version: mcpVersion}, nil)
	add := func(name, description, schema string, words func(client.ToolDecision) string) {
		s.AddTool(&mcp.Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema)},
			func(ctx context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return a.callTool(r.WithContext(ctx), call, words), nil
			})
	}
	add(schemas.MCPCheck, checkDescription, checkSchema, checkText)
	add(schemas.MCPExplain, explainDescription, explainSchema, explainText)
	return s
}

// callTool answers a call with the decision, as data and as text. The text of an error is for
// the model.
func (a *API) callTool(r *http.Request, call *mcp.CallToolRequest, words func(client.ToolDecision) string) *mcp.CallToolResult {
	d, fault := a.decideRun(r, call.Params.Arguments, call.Params.Name == schemas.MCPExplain)
	if fault != nil {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: fault.Message}}}
	}
	return &mcp.CallToolResult{StructuredContent: d, Content: []mcp.Content{&mcp.TextContent{Text: words(d)}}}
}

// decideRun decides as POST /unloop/v1/check does.
func (a *API) decideRun(r *http.Request, text json.RawMessage, explain bool) (client.ToolDecision, *client.Error) {
	d, fault := a.readRun(r, text, explain)
	if fault != nil {
		return client.ToolDecision{}, fault
	}
	d.Client, _ = r.Context().Value(principalKey{}).(request.Principal)
	return a.cfg.Decider.CheckRun(http.Header{}, d), nil
}

// readRun reads the check of a tool call in its turn.
func (a *API) readRun(r *http.Request, text json.RawMessage, explain bool) (*Described, *client.Error) {
	if len(text) == 0 {
		text = json.RawMessage("{}")
	}
	give, fault := a.Turn(r, len(text))
	if fault != nil {
		return nil, fault
	}
	defer give()
	c, fault := parse(text)
	if fault != nil {
		return nil, fault
	}
	if c.run.Explain = c.run.Explain || explain; !c.isRun() {
		return nil, invalid("tool", "tool: name the tool that is called")
	}
	return a.cfg.Reader.describe(r, c)
}

// checkText returns the decision as a text that a model can act on.
func checkText(d client.ToolDecision) string {
	text := d.Action
	if d.Message != "" {
		text += ": " + d.Message
	}
	if d.Degraded != "" {
		text += " (not checked: " + d.Degraded + ")"
	}
	return text
}

// explainText describes a session.
func explainText(d client.ToolDecision) string {
	if d.Degraded != "" {
		return "Nothing can be said now: " + d.Degraded + "."
	}
	c := d.Counts
	if c.Total == 0 {
		return "No tool calls of this session are known."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "This session made %d tool calls, %d of them different, and %d were blocked.", c.Total, c.Unique, c.Blocked)
	if c.MostRepeatedCount > 1 {
		fmt.Fprintf(&b, " One call of %s was made %d times.", c.MostRepeated, c.MostRepeatedCount)
	}
	stand := 0
	for _, f := range d.Findings {
		if !f.Shadow && f.Message != "" {
			stand++
			fmt.Fprintf(&b, "\n- %s (%s): %s", outcome.RunAction(f.Action), f.Rule, f.Message)
		}
	}
	switch {
	case stand == 0:
		b.WriteString(" Nothing goes round in circles.")
	case d.LoopID != "":
		b.WriteString("\nWho runs Unloop can release it by its id, " + d.LoopID + ".")
	}
	return b.String()
}
