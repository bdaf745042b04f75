package clientprofile

import (
	"net/http"
	"testing"
)

// The headers are those that the clients send; of Cline, Roo and the SDKs in Python, those
// that their sources have.
func TestClientsAreKnownByTheirHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header map[string]string
		want   string
		ends   Answer
	}{
		{map[string]string{"User-Agent": "codex_exec/0.169.0 (Debian 12.0.0; x86_64) unknown (codex_exec; 0.169.0)", "Originator": "codex_exec"}, "codex", Refused},
		{map[string]string{"User-Agent": "codex_cli_rs/0.169.0 (Mac OS 15.5.0; arm64)"}, "codex", Refused},
		{map[string]string{"User-Agent": "codex-tui/0.169.0"}, "codex", Refused},
		{map[string]string{"User-Agent": "QwenCode/0.24.4 (linux; x64)", "X-Stainless-Lang": "js"}, "qwen-code", Refused},
		{map[string]string{"User-Agent": "opencode/1.18.33 ai-sdk/provider-utils/4.0.23 runtime/bun/1.3.14"}, "opencode", Refused},
		{map[string]string{"User-Agent": "GeminiCLI-tui/0.61.0/gemini-2.5-flash (linux; x64; terminal)", "X-Goog-Api-Client": "google-genai-sdk/1.30.0 gl-node/v20.20.2"}, "gemini-cli", Refused},
		{map[string]string{"User-Agent": "ai/7.0.173 ai-sdk-provider-utils/5.0.81 node.js/v20.20.2"}, "ai-sdk", Refused},
		{map[string]string{"User-Agent": "ai-sdk/openai/2.0.131 ai-sdk/provider-utils/3.0.9 runtime/node.js/20"}, "ai-sdk", Refused},
		{map[string]string{"User-Agent": "ai-sdk-provider-utils/5.0.81 node.js/v20.20.2"}, "ai-sdk", Refused},
		{map[string]string{"User-Agent": "langchainjs-openai/1.0.0 ((node/v20.20.2; linux; x64))", "X-Stainless-Lang": "js"}, "langchain-js", Refused},
		{map[string]string{"User-Agent": "OpenAI/JS 7.55.0", "X-Title": "Cline", "X-Stainless-Lang": "js"}, "cline", Refused},
		{map[string]string{"User-Agent": "RooCode/3.25.0"}, "roo-code", Refused},
		{map[string]string{"User-Agent": "OpenAI/JS 7.55.0", "X-Title": "Roo Code"}, "roo-code", Refused},
		{map[string]string{"User-Agent": "litellm/1.80.0"}, "litellm", Refused},
		{map[string]string{"User-Agent": "aws-sdk-go-v2/1.39.2 ua/2.1 os/linux lang/go#1.26 md/GOOS#linux api/bedrockruntime#1.41.0"}, "aws-sdk", Refused},
		{map[string]string{"User-Agent": "aws-sdk-js/3.900.0 ua/2.1 os/linux lang/js md/nodejs#20.20.2 api/bedrock-runtime#3.900.0"}, "aws-sdk", Refused},
		{map[string]string{"User-Agent": "Boto3/1.40.0 md/Botocore#1.40.0 ua/2.1 os/linux lang/python#3.13.0 cfg/retry-mode#legacy"}, "aws-sdk", Refused},
		{map[string]string{"User-Agent": "claude-cli/2.1.330 (external, sdk-cli)", "X-Stainless-Lang": "js"}, "claude-code", Limited},
		{map[string]string{"User-Agent": "Agents/JavaScript 0.20.0", "X-Stainless-Lang": "js"}, "openai-agents", Limited},
		{map[string]string{"User-Agent": "AsyncOpenAI/Python 2.8.0", "X-Stainless-Lang": "python"}, "openai-sdk", Limited},
		{map[string]string{"User-Agent": "Anthropic/JS 1.11.0", "X-Stainless-Lang": "js"}, "anthropic-sdk", Limited},
		{map[string]string{"X-Goog-Api-Client": "google-genai-sdk/3.1.0 gl-node/v20.20.2"}, "google-genai", Limited},
		{map[string]string{"User-Agent": "acme-client", "X-Stainless-Lang": "go"}, "stainless-sdk", Limited},
		{map[string]string{"User-Agent": "curl/8.5.0"}, "unknown", Limited},
		{map[string]string{"User-Agent": "Mozilla/5.0 (email/opencode)"}, "unknown", Limited},
		{nil, "unknown", Limited},
	} {
		h := http.Header{}
		for name, value := range c.header {
			h.Set(name, value)
		}
		known := Detect(h.Get)
		if got := known.Label(); got != c.want {
			t.Errorf("%v: %s, want %s", c.header, got, c.want)
		}
		if got := (Sender{Client: known, Agent: true}).Answer(true); got != c.ends {
			t.Errorf("%v: %d ends it, want %d", c.header, got, c.ends)
		}
	}
}

func TestClientsSayWhyTheyEnd(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, c := range clients {
		if c.Why == "" || names[c.Name] {
			t.Errorf("%s: named twice, or without a reason", c.Name)
		}
		names[c.Name] = true
	}
}

func TestKnowingAClientAllocatesNothing(t *testing.T) {
	of := http.Header{"User-Agent": {"an-agent/1.0 (of nobody) with\twords"}}.Get
	if n := testing.AllocsPerRun(10, func() { Detect(of) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
