package schemas

import (
	"slices"
	"strings"
)

// The tools of the gateway's MCP server.
const (
	MCPCheck   = "check_loop"
	MCPExplain = "explain_loop"
)

// IsMCPTool reports whether an agent's tool belongs to the gateway's MCP server. Agents
// put the server's name before the tool's.
func IsMCPTool(name string) bool {
	return slices.ContainsFunc([]string{MCPCheck, MCPExplain}, func(tool string) bool {
		server, found := strings.CutSuffix(name, tool)
		return found && (server == "" || strings.Contains(strings.ToLower(server), "unloop"))
	})
}
