// Package extmcppb holds the generated messages of agentgateway's questions about MCP; see
// proto/agentgateway.
package extmcppb
