package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAgentsAreLedToTheGateway(t *testing.T) {
	t.Parallel()
	const url = "http://127.0.0.1:4711"
	const codex = `openai_base_url="http://127.0.0.1:4711/v1"`
	for name, c := range map[string]struct{ args, want []string }{
		"codex":                {[]string{"codex", "exec", "hi"}, []string{"codex", "-c", codex, "exec", "hi"}},
		"by its path":          {[]string{"/usr/bin/codex"}, []string{"/usr/bin/codex", "-c", codex}},
		"on Windows":           {[]string{"Codex.CMD"}, []string{"Codex.CMD", "-c", codex}},
		"by npx":               {[]string{"npx", "-y", "@openai/codex@0.9", "exec"}, []string{"npx", "-y", "@openai/codex@0.9", "-c", codex, "exec"}},
		"something else":       {[]string{"python", "codex"}, []string{"python", "codex"}},
		"npx of another":       {[]string{"npx", "cowsay"}, []string{"npx", "cowsay"}},
		"claude needs no more": {[]string{"claude", "-p", "hi"}, []string{"claude", "-p", "hi"}},
	} {
		args, environ := lead(c.args, []string{"A=1"}, url)
		if diff := cmp.Diff(c.want, args); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if len(environ) != 1 {
			t.Errorf("%s: environment %v", name, environ)
		}
	}
}

func TestOpencodeGetsItsBaseURLsBesideItsOwnConfiguration(t *testing.T) {
	t.Parallel()
	const name = "OPENCODE_CONFIG_CONTENT"
	for set, want := range map[string]string{
		"": `{"provider":{"anthropic":{"options":{"baseURL":"u/v1"}},"google":{"options":{"baseURL":"u/v1beta"}},"openai":{"options":{"baseURL":"u/v1"}}}}`,
		`{"model":"m","provider":{"openai":{"options":{"timeout":1},"name":"n"}}}`: `{"model":"m","provider":{"anthropic":{"options":{"baseURL":"u/v1"}},` +
			`"google":{"options":{"baseURL":"u/v1beta"}},"openai":{"name":"n","options":{"baseURL":"u/v1","timeout":1}}}}`,
		"{": "{",
	} {
		_, environ := lead([]string{"opencode", "run"}, []string{name + "=" + set}, "u")
		if got := variable(environ, name); got != want {
			t.Errorf("%s became %s, want %s", set, got, want)
		}
	}
}

func TestAdviceNamesHowAnAgentTakesABaseURL(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"openai_base_url":         {"codex"},
		"OPENCODE_CONFIG_CONTENT": {"opencode"},
		"ANTHROPIC_BASE_URL":      {"npx", "@anthropic-ai/claude-code"},
		"GEMINI_API_KEY":          {"gemini"},
		"OPENAI_API_BASE":         {"aider"},
		"models.json":             {"npx", "@mariozechner/pi-coding-agent@0.73"},
		"-b http://u/v1":          {"cline", "fix it"},
		"--auth-type openai":      {"qwen"},
		"http://u as their host":  {"goose", "run"},
		"its own servers":         {"cursor-agent"},
		"_BASE_URL=http://u/v1":   {"npx", "@github/copilot"},
		"unless the code names":   {"python", "agent.py"},
	} {
		if got := advice(args, "http://u", false); !strings.Contains(got, want) {
			t.Errorf("%v: %s", args, got)
		}
	}
}

// A gateway that exec started is gone when a file could name it.
func TestAdviceNamesAGatewayThatStays(t *testing.T) {
	t.Parallel()
	if got := advice([]string{"pi"}, "http://127.0.0.1:4711", true); strings.Contains(got, "4711") || !strings.Contains(got, defaultGateway+"/v1") || !strings.Contains(got, "unloop up") {
		t.Error(got)
	}
}

func TestCopilotIsLedWhereItHasAKeyOfAProvider(t *testing.T) {
	t.Parallel()
	const key = "COPILOT_PROVIDER_API_KEY=k"
	for want, environ := range map[string][]string{
		"":            {"A=1"},
		"http://u/v1": {key},
		"http://u":    {key, "COPILOT_PROVIDER_TYPE=anthropic"},
		"http://own":  {key, "COPILOT_PROVIDER_BASE_URL=http://own"},
	} {
		_, got := lead([]string{"copilot", "-p", "hi"}, environ, "http://u")
		if address := variable(got, "COPILOT_PROVIDER_BASE_URL"); address != want {
			t.Errorf("%v: %q, want %q", environ, address, want)
		}
	}
}

func TestGooseIsLedByTheHostsOfItsProviders(t *testing.T) {
	t.Parallel()
	_, environ := lead([]string{"goose", "run"}, []string{"OPENAI_HOST=https://api.openai.com"}, "http://u")
	if diff := cmp.Diff([]string{"OPENAI_HOST=http://u", "ANTHROPIC_HOST=http://u"}, environ); diff != "" {
		t.Error(diff)
	}
}
