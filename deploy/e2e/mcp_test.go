package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/unloop/unloop/schemas/client"
)

// withHeaders adds headers to all requests, as MCP clients are configured to.
type withHeaders map[string]string

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// connectMCP connects the SDK's own client.
func connectMCP(t *testing.T, url string, headers withHeaders) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url + "/unloop/mcp", HTTPClient: &http.Client{Transport: headers}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// use calls a tool, and returns its text and decision.
func use(t *testing.T, s *mcp.ClientSession, tool string, args map[string]any) (string, client.ToolDecision) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil || res.IsError || len(res.Content) != 1 {
		t.Fatalf("%s: %+v, %v", tool, res, err)
	}
	structured, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	var d client.ToolDecision
	if err := json.Unmarshal(structured, &d); err != nil {
		t.Fatalf("%s: %v", structured, err)
	}
	return res.Content[0].(*mcp.TextContent).Text, d
}

func TestMCPServerChecksAndExplains(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	s := connectMCP(t, url, withHeaders{"Authorization": "Bearer sk-runner"})
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
		if tool.Description == "" || tool.InputSchema == nil {
			t.Errorf("tool %s has no description or schema", tool.Name)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"check_loop", "explain_loop"}) {
		t.Errorf("tools %v", names)
	}
	call := map[string]any{"session": "s1", "tool": "read", "arguments": map[string]any{"path": "a"}}
	var text string
	var d client.ToolDecision
	for range 5 {
		text, d = use(t, s, "check_loop", call)
	}
	if d.Action != "block" || d.Counts.Streak != 5 || !strings.HasPrefix(text, "block: recursive_loop_detected: The tool read was called 5 times") {
		t.Errorf("fifth: %q, %+v", text, d)
	}
	text, d = use(t, s, "explain_loop", map[string]any{"session": "s1"})
	if d.Counts.Total != 5 || !strings.Contains(text, "made 5 tool calls, 1 of them different") || !strings.Contains(text, "- block (repeat)") || d.LoopID == "" || !strings.Contains(text, d.LoopID) || d.Counts.Streak != 5 {
		t.Errorf("explanation: %q, %+v", text, d)
	}
	if text, _ = use(t, s, "explain_loop", map[string]any{"session": "s2"}); !strings.Contains(text, "No tool calls") {
		t.Errorf("explanation of another session: %q", text)
	}
}

func TestMCPAndHTTPCountTogether(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	ask := runs(t, url, "s1")
	s := connectMCP(t, url, withHeaders{"Authorization": "Bearer sk-runner", "X-Session-Id": "s1"})
	for range 2 {
		ask(client.ToolCall{Tool: "read", Arguments: asJSON(`{"id":12345678901234567}`)})
		use(t, s, "check_loop", map[string]any{"tool": "read", "arguments": json.RawMessage(`{"id":12345678901234567}`)})
	}
	if d := ask(client.ToolCall{Tool: "read", Arguments: asJSON(`{"id":12345678901234567}`)}); d.Action != "block" || d.Counts.Streak != 5 {
		t.Errorf("fifth: %+v", d)
	}
	if d := ask(client.ToolCall{Tool: "read", Arguments: asJSON(`{"id":12345678901234568}`)}); d.Action != "allow" {
		t.Errorf("another number of many digits: %+v", d)
	}
}

func TestMCPCallersAreApart(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	one, other := connectMCP(t, url, withHeaders{"Authorization": "Bearer sk-1"}), connectMCP(t, url, withHeaders{"Authorization": "Bearer sk-2"})
	for range 5 {
		use(t, one, "check_loop", map[string]any{"session": "s", "tool": "read"})
	}
	if _, d := use(t, other, "check_loop", map[string]any{"session": "s", "tool": "read"}); d.Action != "allow" || d.Counts.Total != 1 {
		t.Errorf("another caller: %+v", d)
	}
}

func TestMCPCallsThatMakeNoSenseAreToldSo(t *testing.T) {
	t.Parallel()
	s := connectMCP(t, start(t, echo(t)).URL(), nil)
	for name, c := range map[string]struct {
		tool string
		args any
		want string
	}{
		"no session":   {"check_loop", map[string]any{"tool": "read"}, "session"},
		"no tool":      {"check_loop", map[string]any{"session": "s"}, "tool"},
		"a prompt":     {"check_loop", map[string]any{"session": "s", "prompt": "p"}, "tool"},
		"unknown":      {"check_loop", map[string]any{"session": "s", "tool": "a", "resultt": "p"}, "resultt"},
		"explain what": {"explain_loop", nil, "session"},
	} {
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args})
		if err != nil || !res.IsError || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, c.want) {
			t.Errorf("%s: %+v, %v; want an error of the tool that names %s", name, res, err, c.want)
		}
	}
}

func TestMCPIsNotForPagesOfOthers(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/unloop/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://evil.example")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusForbidden {
		t.Errorf("status %d, want 403", res.StatusCode)
	}
}
