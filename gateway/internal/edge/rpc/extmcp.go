package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/unloop/unloop/gateway/internal/edge/beside"
	"github.com/unloop/unloop/gateway/internal/edge/checkapi"
	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/extmcppb"
	"github.com/unloop/unloop/schemas/kit/access"
)

const (
	checkRequestPath  = "/agentgateway.dev.ext_mcp.ExtMcp/CheckRequest"
	checkResponsePath = "/agentgateway.dev.ext_mcp.ExtMcp/CheckResponse"
	// toolCall is the MCP method that is checked; others pass.
	toolCall = "tools/call"
	// maxResult bounds the results that get a hint, in bytes: the default limit of gRPC
	// clients, less room for the hint.
	maxResult = 4<<20 - 16<<10
)

// mcpCall is a tool call in the params of an MCP request.
type mcpCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	// Responses and State belong to a call whose server asked for input.
	Responses json.RawMessage `json:"inputResponses"`
	State     json.RawMessage `json:"requestState"`
}

// goesOn reports whether this continues an earlier call with the input that its server asked
// for.
func (c *mcpCall) goesOn() bool { return c.Responses != nil || c.State != nil }

// callIn returns the call in params; one without a name if there is none.
func callIn(params []byte) (made mcpCall) {
	if json.Unmarshal(params, &made) != nil {
		return mcpCall{}
	}
	return made
}

// checkRequest tells agentgateway whether a tool may be called.
func (h *Handler) checkRequest(ctx context.Context, q *connect.Request[extmcppb.McpRequest]) (*connect.Response[extmcppb.McpRequestResult], error) {
	m := q.Msg
	pass := &extmcppb.McpRequestResult{Result: &extmcppb.McpRequestResult_Pass{Pass: &extmcppb.Pass{}}}
	if m.GetMethod() != toolCall {
		return connect.NewResponse(pass), nil
	}
	header := http.Header{}
	for _, one := range m.GetHeaders() {
		if !strings.HasPrefix(one.GetKey(), ":") { // those of HTTP/2
			header.Add(one.GetKey(), string(one.GetValue()))
		}
	}
	a, fault := h.asker(ctx, q.Header(), header, m)
	if fault != nil {
		return refusedMCP(codeOf(fault), fault.Message, ""), nil
	}
	defer a.cancel()
	var made mcpCall
	if fault := a.inTurn(len(m.GetMcpRequest()), func() { made = callIn(m.GetMcpRequest()) }); fault != nil {
		return refusedMCP(codeOf(fault), fault.Message, ""), nil
	}
	switch {
	case made.Name == "":
		return refusedMCP(extmcppb.AuthorizationError_INVALID, "the params of "+toolCall+" must have a name", ""), nil
	case made.goesOn():
		return connect.NewResponse(pass), nil
	}
	decision, fault := a.ask(client.ToolCall{Tool: made.Name, Arguments: made.Arguments})
	switch {
	case fault != nil:
		return refusedMCP(codeOf(fault), fault.Message, ""), nil
	case decision.Allowed():
		return connect.NewResponse(pass), nil
	default:
		return refusedMCP(extmcppb.AuthorizationError_RESOURCE_EXHAUSTED, decision.Message, decision.LoopID), nil
	}
}

// checkResponse reports the result of a call, the last message if the server streams. The
// result passes, with a hint appended if the call loops: the next call is the one that is
// stopped.
func (h *Handler) checkResponse(ctx context.Context, q *connect.Request[extmcppb.McpResponse]) (*connect.Response[extmcppb.McpResponseResult], error) {
	m := q.Msg
	pass := &extmcppb.McpResponseResult{Result: &extmcppb.McpResponseResult_Pass{Pass: &extmcppb.Pass{}}}
	if m.GetMethod() != toolCall {
		return connect.NewResponse(pass), nil
	}
	a, fault := h.asker(ctx, q.Header(), http.Header{}, m)
	if fault != nil {
		return connect.NewResponse(pass), nil
	}
	defer a.cancel()
	var call *client.ToolCall
	var content []json.RawMessage
	size := len(m.GetMcpResponse()) + proto.Size(m.GetMetadataContext())
	if fault := a.inTurn(size, func() { call, content = madeIn(m) }); fault != nil || call == nil {
		return connect.NewResponse(pass), nil
	}
	stands, fault := a.ask(*call)
	if fault == nil { // what stands against the session may have been found when the call was made
		stands, fault = a.ask(client.ToolCall{Explain: true})
	}
	if fault == nil && stands.Message != "" && len(call.Result) < maxResult {
		_ = a.inTurn(size, func() { // without a turn, the result passes as it is
			if hinted := withHint(call.Result, content, stands.Message); hinted != nil {
				pass.Result = &extmcppb.McpResponseResult_Mutated{Mutated: hinted}
			}
		})
	}
	return connect.NewResponse(pass), nil
}

// madeIn returns the call whose result is reported, and the result's content. It returns nil
// if the metadata do not name the call, or if this result is not final: a server may ask for
// input instead, or answer later.
func madeIn(m *extmcppb.McpResponse) (call *client.ToolCall, content []json.RawMessage) {
	about := m.GetMetadataContext().GetFields()
	tool := about["tool"].GetStringValue()
	if tool == "" || about["arguments"] == nil {
		return nil, nil
	}
	var result struct {
		Type    string            `json:"resultType"`
		Content []json.RawMessage `json:"content"`
		Failed  bool              `json:"isError"`
		Task    json.RawMessage   `json:"task"`
	}
	arguments, err := about["arguments"].MarshalJSON()
	if err != nil || json.Unmarshal(m.GetMcpResponse(), &result) != nil || result.Type != "" && result.Type != "complete" || result.Task != nil {
		return nil, nil
	}
	return &client.ToolCall{Tool: tool, Arguments: arguments, Result: m.GetMcpResponse(), IsError: &result.Failed}, result.Content
}

// withHint returns a result with a text appended to its content; nil if it can't have one.
func withHint(result []byte, content []json.RawMessage, hint string) []byte {
	fields := map[string]json.RawMessage{}
	text, err := json.Marshal(map[string]string{"type": "text", "text": hint})
	if err == nil {
		err = json.Unmarshal(result, &fields)
	}
	if err == nil {
		fields["content"], err = json.Marshal(append(content, text))
	}
	if err == nil {
		result, err = json.Marshal(fields)
	}
	if err != nil {
		return nil
	}
	return result
}

// question is what both of agentgateway's requests have.
type question interface {
	GetMetadataContext() *structpb.Struct
	GetServiceNames() []string
}

// asker asks about a call on behalf of the request that makes it.
type asker struct {
	api     *checkapi.API
	request *http.Request
	cancel  context.CancelFunc
	session string
}

// asker returns an asker for the request with the headers. The key comes from these, from the
// question's metadata or from gRPC's: results come without headers.
func (h *Handler) asker(ctx context.Context, rpc, header http.Header, q question) (*asker, *client.Error) {
	about := q.GetMetadataContext().GetFields()
	if key := about["key"].GetStringValue(); key != "" {
		header.Set(access.Header, key)
	}
	keyed(header, rpc)
	within, cancel := beside.Within(ctx, 0)
	d := described{method: http.MethodPost, path: toolPath, header: header, body: http.NoBody}
	r, err := d.request(within, callOf(ctx).peer)
	if err != nil {
		cancel()
		return nil, &client.Error{Status: http.StatusBadRequest, Message: err.Error()}
	}
	// The session in the metadata, else in the headers, else one for all callers of the same
	// servers.
	session := cmp.Or(about["session"].GetStringValue(), header.Get("X-Session-Id"), header.Get("Mcp-Session-Id"), "agentgateway "+strings.Join(q.GetServiceNames(), " "))
	return &asker{h.cfg.API, r, cancel, session}, nil
}

// inTurn calls read, which parses n bytes of JSON, in the caller's turn.
func (a *asker) inTurn(n int, read func()) *client.Error {
	give, fault := a.api.Turn(a.request, n)
	if fault != nil {
		return fault
	}
	defer give()
	read()
	return nil
}

// ask asks about a call.
func (a *asker) ask(call client.ToolCall) (*client.ToolDecision, *client.Error) {
	call.Session = a.session
	decision, fault := a.api.Ask(http.Header{}, a.request, "", call)
	if fault != nil {
		return nil, fault
	}
	tool, _ := decision.(client.ToolDecision) // as for each client.ToolCall
	return &tool, nil
}

// toolPath is the path in the HTTP request that stands for a call.
const toolPath = "/mcp"

// codeOf returns the code for a question that was refused.
func codeOf(fault *client.Error) extmcppb.AuthorizationError_Code {
	switch fault.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return extmcppb.AuthorizationError_PERMISSION_DENIED
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return extmcppb.AuthorizationError_RESOURCE_EXHAUSTED
	default:
		return extmcppb.AuthorizationError_INVALID
	}
}

// refusedMCP refuses a call. The loop's id becomes the data of the JSON-RPC error.
func refusedMCP(code extmcppb.AuthorizationError_Code, reason, loopID string) *connect.Response[extmcppb.McpRequestResult] {
	type data struct {
		Code   string `json:"code"`
		LoopID string `json:"loop_id"`
	}
	e := &extmcppb.AuthorizationError{Code: code, Reason: reason}
	if loopID != "" {
		e.McpError, _ = json.Marshal(data{"recursive_loop_detected", loopID}) // strings have a form in JSON
	}
	return connect.NewResponse(&extmcppb.McpRequestResult{Result: &extmcppb.McpRequestResult_Error{Error: e}})
}
