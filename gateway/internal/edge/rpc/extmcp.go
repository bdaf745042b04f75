package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/unloop/unloop/gateway/internal/edge/beside"
	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/extmcppb"
)

const (
	checkRequestPath  = "/agentgateway.dev.ext_mcp.ExtMcp/CheckRequest"
	checkResponsePath = "/agentgateway.dev.ext_mcp.ExtMcp/CheckResponse"
	// toolCall is the method that calls a tool; others pass.
	toolCall = "tools/call"
	// stoppedCode is the code of JSON-RPC for a call that is stopped.
	stoppedCode = -32001
)

// mcpCall is a tool's call as params of MCP describe it.
type mcpCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// callIn returns the call in params; one without a name for what is none.
func callIn(params []byte) (made mcpCall) {
	if json.Unmarshal(params, &made) != nil {
		return mcpCall{}
	}
	return made
}

// checkRequest answers agentgateway whether a tool may be called.
func (h *Handler) checkRequest(ctx context.Context, q *connect.Request[extmcppb.McpRequest]) (*connect.Response[extmcppb.McpRequestResult], error) {
	m := q.Msg
	pass := &extmcppb.McpRequestResult{Result: &extmcppb.McpRequestResult_Pass{Pass: &extmcppb.Pass{}}}
	if m.GetMethod() != toolCall {
		return connect.NewResponse(pass), nil
	}
	made := callIn(m.GetMcpRequest())
	if made.Name == "" {
		return refusedMCP(extmcppb.AuthorizationError_INVALID, "the params of "+toolCall+" must have a name", ""), nil
	}
	header := http.Header{}
	for _, one := range m.GetHeaders() {
		header.Add(one.GetKey(), string(one.GetValue()))
	}
	keyed(header, q.Header())
	decision, fault := h.ask(ctx, header, client.ToolCall{Session: sessionOf(m.GetMetadataContext(), header, m.GetServiceNames()), Tool: made.Name, Arguments: made.Arguments})
	switch {
	case fault != nil:
		return refusedMCP(codeOf(fault), fault.Message, ""), nil
	case decision.Allowed():
		return connect.NewResponse(pass), nil
	default:
		return refusedMCP(extmcppb.AuthorizationError_RESOURCE_EXHAUSTED, decision.Message, decision.LoopID), nil
	}
}

// checkResponse takes the result of a call. It always passes: what it repeats is stopped
// at the next call.
func (h *Handler) checkResponse(ctx context.Context, q *connect.Request[extmcppb.McpResponse]) (*connect.Response[extmcppb.McpResponseResult], error) {
	m := q.Msg
	fields := m.GetMetadataContext().GetFields()
	if tool := fields["tool"].GetStringValue(); m.GetMethod() == toolCall && tool != "" && fields["arguments"] != nil {
		arguments, err := fields["arguments"].MarshalJSON()
		header := http.Header{}
		keyed(header, q.Header())
		var result struct {
			Failed bool `json:"isError"`
		}
		if err == nil && json.Unmarshal(m.GetMcpResponse(), &result) == nil {
			_, _ = h.ask(ctx, header, client.ToolCall{ // a result passes, whatever is said of it
				Session: sessionOf(m.GetMetadataContext(), header, m.GetServiceNames()), Tool: tool, Arguments: arguments, Result: m.GetMcpResponse(), IsError: &result.Failed,
			})
		}
	}
	return connect.NewResponse(&extmcppb.McpResponseResult{Result: &extmcppb.McpResponseResult_Pass{Pass: &extmcppb.Pass{}}}), nil
}

// ask asks about a call with the headers of the request that makes it.
func (h *Handler) ask(ctx context.Context, header http.Header, call client.ToolCall) (*client.ToolDecision, *client.Error) {
	within, cancel := beside.Within(ctx, 0)
	defer cancel()
	d := described{method: http.MethodPost, path: toolPath, header: header, body: http.NoBody}
	r, err := d.request(within, callOf(ctx).peer)
	if err != nil {
		return nil, &client.Error{Status: http.StatusBadRequest, Message: err.Error()}
	}
	decision, fault := h.cfg.API.Ask(http.Header{}, r, "", call)
	if fault != nil {
		return nil, fault
	}
	tool, ok := decision.(client.ToolDecision)
	if !ok {
		return nil, &client.Error{Status: http.StatusInternalServerError, Message: errNoTool.Error()}
	}
	return &tool, nil
}

var errNoTool = errors.New("a call is no request")

// toolPath stands for the path of a call, which has none of HTTP.
const toolPath = "/mcp"

// sessionOf returns whose calls are counted together: who the metadata name as session, else the
// session in the headers, else all that call the same servers.
func sessionOf(metadata *structpb.Struct, h http.Header, servers []string) string {
	return cmp.Or(metadata.GetFields()["session"].GetStringValue(), h.Get("X-Session-Id"), h.Get("Mcp-Session-Id"), "agentgateway "+strings.Join(servers, " "))
}

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

// refusedMCP refuses a call with the reason, and as an error of JSON-RPC.
func refusedMCP(code extmcppb.AuthorizationError_Code, reason, loopID string) *connect.Response[extmcppb.McpRequestResult] {
	type data struct {
		LoopID string `json:"loop_id"`
	}
	e := &extmcppb.AuthorizationError{Code: code, Reason: reason}
	if loopID != "" {
		// Strings have a form in JSON.
		e.McpError, _ = json.Marshal(map[string]any{"code": stoppedCode, "message": reason, "data": data{loopID}})
	}
	return connect.NewResponse(&extmcppb.McpRequestResult{Result: &extmcppb.McpRequestResult_Error{Error: e}})
}
