package schemas

import "strings"

// The tools of the gateway's MCP server.
const (
	MCPCheck   = "check_loop"
	MCPExplain = "explain_loop"
)

// IsMCPTool reports whether an agent's tool belongs to the gateway's MCP server. Agents
// put the server's name before the tool's.
func IsMCPTool(name string) bool {
	for _, tool := range []string{MCPCheck, MCPExplain} {
		if server, found := strings.CutSuffix(name, tool); found && (server == "" || strings.Contains(strings.ToLower(server), "unloop")) {
			return true
		}
	}
	return false
}
