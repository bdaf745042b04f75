package bedrock

import (
	"net/http"
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
)

// Format is that of Converse.
var Format = &provider.Format{
	Provider:  Converse{},
	Reads:     func(path string) bool { return calls(path, "/converse", "/converse-stream") },
	Upstreams: []*provider.Upstream{Upstream},
	Operation: "chat",
	PutKey:    putKey,
	Usage: provider.Usage{
		Objects: []string{"usage"}, Input: []string{"inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"},
		Cached: []string{"cacheReadInputTokens"}, Output: []string{"outputTokens"},
		MaxOutput: []string{"inferenceConfig.maxTokens"}, Prompt: []string{"messages", "system", "toolConfig"},
	},
	LastEvents: []string{"metadata"},
	Framing:    &provider.Framing{ContentType: typeFrames, Events: newFrames, Frame: frame},
	Signed:     isSigned,
}

// Messages is the format of Anthropic's Messages by InvokeModel.
var Messages = &provider.Format{
	Provider:  Invoke{},
	Reads:     func(path string) bool { return calls(path, "/invoke", "/invoke-with-response-stream") },
	Upstreams: []*provider.Upstream{Upstream},
	Operation: "chat",
	PutKey:    putKey,
	Usage:     anthropic.Usage,
	Framing:   &provider.Framing{ContentType: typeFrames, Events: newFrames, Frame: chunk},
	Signed:    isSigned,
}

// Upstream is Bedrock's runtime. Each region has its own, so --upstream has to name it.
var Upstream = &provider.Upstream{
	Name: "bedrock", Title: "AWS Bedrock", Hosts: []string{".amazonaws.com", ".amazonaws.com.cn", ".api.aws"}, System: "aws.bedrock",
	Claims: func(_ *http.Request, path string) bool {
		return strings.HasPrefix(path, "/model/") && calls(path, "/converse", "/converse-stream", "/invoke", "/invoke-with-response-stream", "/count-tokens")
	},
	Owns: func(_, key string) bool {
		return strings.HasPrefix(key, "ABSK") || strings.HasPrefix(key, "bedrock-api-key-") || strings.HasPrefix(key, "Credential=")
	},
	Costs:  func(path string) bool { return calls(path, "/invoke", "/invoke-with-response-stream") },
	Other:  &provider.Format{Provider: Other{}, PutKey: putKey, Signed: isSigned},
	Models: "/",
}

// calls reports whether a path calls a model by one of the methods.
func calls(path string, methods ...string) bool {
	return strings.Contains(path, "/model/") && slices.ContainsFunc(methods, func(m string) bool { return strings.HasSuffix(path, m) })
}
