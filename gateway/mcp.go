package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/unloop/unloop/gateway/internal/auth"
	"github.com/unloop/unloop/gateway/internal/outcome"
	"github.com/unloop/unloop/gateway/internal/route"
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
	"peek": {"type": "boolean", "description": "Ask what would happen, and count nothing."}}}`

const explainSchema = `{"type": "object", "properties": {` + sessionSchema + `}}`

// principalKey is where the MCP server finds who the client is.
type principalKey struct{}

// newMCP returns the handler of the MCP server, over streamable HTTP. It keeps no
// sessions of its own, so that any gateway can answer any message.
func (g *Gateway) newMCP() http.Handler {
	return mcp.NewStreamableHTTPHandler(g.mcpServer, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: g.cfg.MaxInspectBytes + envelope,
		DisableLocalhostProtection: true, // the gateway's own check knows --allow-host
	})
}

// answerMCP lets a client in and answers its message.
func (g *Gateway) answerMCP(w http.ResponseWriter, r *http.Request) {
	x := g.newExchange(r, route.Target{Format: route.Chat})
	if !g.admit(w, x) {
		return
	}
	g.mcp.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, x.Client)))
}

// mcpServer is the server for one HTTP request, whose headers say who asks.
func (g *Gateway) mcpServer(r *http.Request) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "unloop", Title: "Unloop", Version: mcpVersion}, nil)
	s.AddTool(&mcp.Tool{Name: schemas.MCPCheck, Description: checkDescription, InputSchema: json.RawMessage(checkSchema)},
		func(ctx context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return g.tell(ctx, r, call, checkText), nil
		})
	s.AddTool(&mcp.Tool{Name: schemas.MCPExplain, Description: explainDescription, InputSchema: json.RawMessage(explainSchema)},
		func(ctx context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return g.tell(ctx, r, call, explainText), nil
		})
	return s
}

// tell answers a tool's call, with words beside the decision. What is wrong with
// the call is for the model to read.
func (g *Gateway) tell(ctx context.Context, r *http.Request, call *mcp.CallToolRequest, words func(client.ToolDecision) string) *mcp.CallToolResult {
	d, fault := g.askRun(ctx, r, call.Params.Arguments, call.Params.Name == schemas.MCPExplain)
	if fault != nil {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: fault.Message}}}
	}
	return &mcp.CallToolResult{StructuredContent: d, Content: []mcp.Content{&mcp.TextContent{Text: words(d)}}}
}

// askRun asks the question of an MCP client, as POST /unloop/v1/check would.
func (g *Gateway) askRun(ctx context.Context, r *http.Request, text json.RawMessage, explain bool) (client.ToolDecision, *client.Error) {
	if len(text) == 0 {
		text = json.RawMessage("{}")
	}
	q, fault := readQuestion(text)
	if fault != nil {
		return client.ToolDecision{}, fault
	}
	if q.run.Explain = q.run.Explain || explain; !asked(&q.run) {
		return client.ToolDecision{}, invalid("tool", "tool: name the tool that is called")
	}
	x, fault := g.about(r.WithContext(ctx), q)
	if fault != nil {
		return client.ToolDecision{}, fault
	}
	x.Client, _ = r.Context().Value(principalKey{}).(auth.Principal)
	return g.decideRun(x), nil
}

// checkText says the decision in words that a model can act on.
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

// explainText says what is known of a session.
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
