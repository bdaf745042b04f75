package cli

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway"
)

// agent is a program to which exec can give a base URL.
type agent struct {
	// packages are its package names, by which runners such as npx start it.
	packages []string
	// arguments are inserted after the program's name.
	arguments func(url string) []string
	// variables are added to its environment.
	variables func(url string, environ []string) []string
	// advice says how to set its base URL. GATEWAY stands for the gateway's address.
	advice string
}

// agents are the known programs, by name.
var agents = map[string]agent{
	"codex": {
		packages:  []string{"@openai/codex"},
		arguments: func(url string) []string { return []string{"-c", `openai_base_url="` + url + `/v1"`} },
		advice: "Codex was started with -c openai_base_url=…; a profile or a model_provider of its own in ~/.codex/config.toml outranks that: " +
			"give it base_url = \"GATEWAY/v1\" there",
	},
	"opencode": {
		packages:  []string{"opencode-ai"},
		variables: opencodeConfig,
		advice:    "opencode was started with provider.…options.baseURL in OPENCODE_CONFIG_CONTENT, for openai, anthropic and google; give other providers options.baseURL in opencode.json",
	},
	"claude": {
		packages: []string{"@anthropic-ai/claude-code"},
		advice:   "Claude Code takes ANTHROPIC_BASE_URL, unless its settings.json sets another one or it runs on Bedrock or Vertex",
	},
	"gemini": {
		packages: []string{"@google/gemini-cli"},
		advice:   "Gemini CLI takes GOOGLE_GEMINI_BASE_URL with an API key (GEMINI_API_KEY), and not with a Google login",
	},
	"goose": {
		variables: func(url string, _ []string) []string { return []string{"OPENAI_HOST=" + url, "ANTHROPIC_HOST=" + url} },
		advice:    "goose was started with OPENAI_HOST and ANTHROPIC_HOST; give other providers GATEWAY as their host in `goose configure`",
	},
	"pi": {
		packages: []string{"@mariozechner/pi-coding-agent"},
		advice:   `pi takes base URLs from ~/.pi/agent/models.json alone: {"providers": {"anthropic": {"baseUrl": "GATEWAY"}, "openai": {"baseUrl": "GATEWAY/v1"}}}`,
	},
	"cline": {
		packages: []string{"cline"},
		advice:   "Cline takes its base URL from its provider's settings: cline auth openai-compatible -k KEY -m MODEL -b GATEWAY/v1",
	},
	"qwen": {
		packages: []string{"@qwen-code/qwen-code"},
		advice:   "Qwen Code takes OPENAI_BASE_URL with --auth-type openai and OPENAI_API_KEY, unless its settings.json names another address or it is logged in to Qwen",
	},
	"copilot": {
		packages:  []string{"@github/copilot"},
		variables: copilotProvider,
		advice: "Copilot CLI calls GitHub's models, which no command can lead, unless it has a provider of its own: " +
			"COPILOT_PROVIDER_BASE_URL=GATEWAY/v1, with COPILOT_PROVIDER_API_KEY and COPILOT_MODEL",
	},
	"cursor-agent": {advice: "Cursor calls models from its own servers, so no command can lead it: docs/agents.md says which gateway it can use"},
	"aider":        {advice: "aider takes OPENAI_API_BASE and --openai-api-base for OpenAI's models, and ANTHROPIC_API_BASE for Anthropic's"},
}

// runners start the program that their first argument names.
var runners = []string{"npx", "bunx", "pnpx", "uvx", "pipx"}

// agentOf returns the known agent that a command line starts, and the index of the agent's name.
func agentOf(args []string) (known agent, at int, ok bool) {
	name := program(args[0])
	if known, ok = agents[name]; ok {
		return known, 0, true
	}
	if !slices.Contains(runners, name) {
		return agent{}, 0, false
	}
	for i, arg := range args[1:] {
		if strings.HasPrefix(arg, "-") {
			continue
		}
		for name, a := range agents {
			if bare := withoutVersion(arg); bare == name || slices.Contains(a.packages, bare) {
				return a, i + 1, true
			}
		}
	}
	return agent{}, 0, false
}

// program returns the name of a program without its folder and the extensions of Windows.
func program(path string) string {
	name := strings.ToLower(filepath.Base(path))
	for _, ending := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, ending)
	}
	return name
}

// withoutVersion returns the name of an npm package: @scope/name@1.2 is @scope/name.
func withoutVersion(spec string) string {
	if at := strings.LastIndexByte(spec, '@'); at > 0 {
		return spec[:at]
	}
	return spec
}

// lead adds to a command line and an environment what leads a known agent to the gateway.
func lead(args, environ []string, url string) (leadingArgs, leadingEnviron []string) {
	a, at, ok := agentOf(args)
	if !ok {
		return args, environ
	}
	if a.arguments != nil {
		args = slices.Insert(slices.Clone(args), at+1, a.arguments(url)...)
	}
	if a.variables != nil {
		for _, entry := range a.variables(url, environ) {
			name, value, _ := strings.Cut(entry, "=")
			environ = setVar(environ, name, value)
		}
	}
	return args, environ
}

// advice says how to point a command at a gateway. A gateway that was started for the command
// has another address each time, which no configuration file can name.
func advice(args []string, gateway string, own bool) string {
	if a, _, ok := agentOf(args); ok {
		if own {
			gateway = defaultGateway
		}
		text := strings.ReplaceAll(a.advice, "GATEWAY", gateway)
		if own && text != a.advice {
			text += "; run `unloop up` for that"
		}
		return text
	}
	return baseURLAdvice()
}

// baseURLAdvice says how to point an unknown command at a gateway.
func baseURLAdvice() string {
	var names []string
	for _, u := range gateway.Upstreams() {
		if len(u.Variables) > 0 {
			names = append(names, u.Variables[0].Name)
		}
	}
	last := len(names) - 1
	return "it must take its base URL from " + strings.Join(names[:last], ", ") + " or " + names[last] + ", as the SDKs do unless the code names another one; docs/agents.md has recipes"
}

// opencodeConfig adds base URLs to opencode's configuration in the environment. It returns
// none if that can't be read.
func opencodeConfig(url string, environ []string) []string {
	const name = "OPENCODE_CONFIG_CONTENT"
	config := map[string]any{}
	if set := variable(environ, name); set != "" && json.Unmarshal([]byte(set), &config) != nil {
		return nil
	}
	for provider, version := range map[string]string{"openai": "/v1", "anthropic": "/v1", "google": "/v1beta"} {
		member(member(member(config, "provider"), provider), "options")["baseURL"] = url + version
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil
	}
	return []string{name + "=" + string(text)}
}

// copilotProvider returns the provider address for Copilot CLI if the environment has a provider
// key. It returns none if an address is set, too: the key may not suit the gateway's upstream.
func copilotProvider(url string, environ []string) []string {
	const address = "COPILOT_PROVIDER_BASE_URL"
	if variable(environ, "COPILOT_PROVIDER_API_KEY") == "" || variable(environ, address) != "" {
		return nil
	}
	if variable(environ, "COPILOT_PROVIDER_TYPE") != "anthropic" {
		url += "/v1"
	}
	return []string{address + "=" + url}
}

// member returns a member of an object, which is created if it is not an object.
func member(of map[string]any, name string) map[string]any {
	if found, ok := of[name].(map[string]any); ok {
		return found
	}
	made := map[string]any{}
	of[name] = made
	return made
}
