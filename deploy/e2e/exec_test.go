package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/unloop/unloop/deploy/unloop/cli"
)

// roleVariable has this test binary be something else.
const roleVariable = "E2E_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "unloop":
		_ = os.Unsetenv(roleVariable)
		os.Exit(cli.Main(os.Args[1:]))
	case "signalled":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		fmt.Println("ready")
		fmt.Println(<-signals)
		os.Exit(7)
	default:
		os.Exit(m.Run())
	}
}

// execed is an `unloop exec` of this test binary, in a session of its own,
// which no terminal sends signals to.
func execed(t *testing.T, environ []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"exec", "--check-timeout", checkTimeout.String()}, args...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GOCOVERDIR=" + os.Getenv("GOCOVERDIR"), roleVariable + "=unloop"}, environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// ran is what became of a command.
type ran struct {
	code     int
	out, err string
}

func runExec(t *testing.T, environ []string, args ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := execed(t, environ, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("from stdin"), &stdout, &stderr
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatalf("run unloop exec: %v", err)
	}
	return ran{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// contains reports what a command did not print.
func (r ran) contains(t *testing.T, code int, out string, errs ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	if !strings.Contains(r.out, out) {
		t.Errorf("no %q in: %s", out, r.out)
	}
	for _, want := range errs {
		if !strings.Contains(r.err, want) {
			t.Errorf("no %q in: %s", want, r.err)
		}
	}
}

// curls is an agent that asks one thing so many times, prints the statuses,
// and ends with an exit code.
func curls(t *testing.T, question string, times, code int) []string {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	script := fmt.Sprintf(`i=0
while [ $i -lt %d ]; do
	curl -s -o /dev/null -w '%%{http_code} ' -H 'Authorization: Bearer sk' "$OPENAI_BASE_URL/chat/completions" \
		-d '{"model":"m","messages":[{"role":"user","content":"%s"}]}'
	i=$((i+1))
done
exit %d`, times, question, code)
	return []string{"sh", "-c", script}
}

func TestExecRunsAShellOfCurlsAndSaysWhatWasStopped(t *testing.T) {
	t.Parallel()
	upstream := serve(t, greeting)
	environ := []string{"OPENAI_BASE_URL=" + upstream.url + "/v1", "UNLOOP_LOG_LEVEL=info"}
	r := runExec(t, environ, append([]string{"--"}, curls(t, "again", 8, 3)...)...)
	r.contains(t, 3, "200 200 200 200 200 429 400 400 ", "8 requests came through: 5 forwarded, 3 stopped (3 in a loop).",
		"1 loop stopped: 3 requests", "the same prompt 8 times", "detector prompt, 3 requests stopped")
	if n := len(upstream.Requests()); n != 5 {
		t.Errorf("the upstream of the agent's own variable saw %d requests, want 5", n)
	}
}

// agentNamed returns the path of a program of an agent's name that sends nothing.
func agentNamed(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExecTellsOnlyOfWhatHappenedMeanwhile(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t))
	statuses(t, s.URL(), prompt("before"), 8)
	flags := []string{"--gateway", s.URL() + "/v1/", "--nats", s.NATSURL(), "--"}
	r := runExec(t, nil, append(flags, curls(t, "again", 7, 0)...)...)
	r.contains(t, 0, "429 429", "1 loop stopped: 2 requests")
	if quiet := runExec(t, nil, append(flags, "true")...); quiet.code != 0 || !strings.HasPrefix(quiet.err, "unloop: no request came through Unloop, so nothing was watched: it must take its base URL from") {
		t.Errorf("a run without a request: %+v", quiet)
	}
	if past := runExec(t, nil, append(flags, agentNamed(t, "pi"))...); past.code != 0 || !strings.Contains(past.err, `"openai": {"baseUrl": "`+s.URL()+`/v1"}`) {
		t.Errorf("an agent that came past the gateway: %+v", past)
	}
	honest := runExec(t, nil, append(flags, curls(t, "once", 1, 0)...)...)
	honest.contains(t, 0, "200", "unloop: 1 request came through, and no loop was found.\n")
	standing := runExec(t, nil, append(flags, curls(t, "again", 1, 0)...)...)
	standing.contains(t, 0, "429", "1 request came through: 0 forwarded, 1 stopped (1 in a loop).\n", "1 loop stopped: 1 request")
	if a := send(t, s.URL(), prompt("another")); a.status != 200 {
		t.Errorf("the gateway afterwards: status %d", a.status)
	}
}

func TestExecLeadsEveryProviderToTheGatewayAndPassesStreams(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t))
	r := runExec(t, []string{"GOOGLE_GEMINI_BASE_URL=http://elsewhere.example", "HTTPS_PROXY=http://proxy.example", "NO_PROXY=x"},
		"--gateway", s.URL(), "--nats", s.NATSURL(), "sh", "-c", `cat; echo " $OPENAI_BASE_URL $ANTHROPIC_BASE_URL $GOOGLE_GEMINI_BASE_URL $NO_PROXY"; echo to stderr >&2`)
	if !regexp.MustCompile(`^from stdin (http://127\.0\.0\.1:\d+)/v1 (http://127\.0\.0\.1:\d+) (http://127\.0\.0\.1:\d+) x,127\.0\.0\.1\n$`).MatchString(r.out) {
		t.Errorf("the agent printed %q", r.out)
	}
	r.contains(t, 0, "", "to stderr\n", "requests for gemini go where the gateway")
}

func TestExecCodesAreThoseOfShells(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"success":             {[]string{"--fresh", "--", "true"}, 0, "no request came through"},
		"its own":             {[]string{"--fresh", "--", "sh", "-c", "exit 42"}, 42, "no request came through"},
		"killed":              {[]string{"--fresh", "--", "sh", "-c", "kill -KILL $$"}, 128 + 9, "no request came through"},
		"not found":           {[]string{"--", "no-such-command"}, 127, "no-such-command"},
		"not executable":      {[]string{"--", "/dev/null"}, 126, "/dev/null"},
		"no command":          {[]string{"--fresh"}, 2, "command"},
		"nothing behind --":   {[]string{"--fresh", "--"}, 2, "command"},
		"no gateway":          {[]string{"--gateway", "http://127.0.0.1:1", "true"}, 1, "--gateway http://127.0.0.1:1"},
		"something else":      {[]string{"--gateway", echo(t), "true"}, 1, "not an Unloop gateway"},
		"bad upstream":        {[]string{"--fresh", "--upstream", "a=ftp://x", "true"}, 1, "--upstream a"},
		"flags of the agent":  {[]string{"--fresh", "sh", "-c", "exit 5", "--fresh", "--nosuch"}, 5, ""},
		"no NATS to ask":      {[]string{"--gateway", start(t, echo(t)).URL(), "--nats", "nats://127.0.0.1:1", "true"}, 0, "no request came through"},
		"policies not there":  {[]string{"--policies", "/no/such.yaml", "true"}, 1, "--policies"},
		"data dir that fails": {[]string{"--fresh", "--data-dir", "/dev/null/x", "true"}, 1, "--data-dir"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runExec(t, nil, c.args...).contains(t, c.code, "", c.says)
		})
	}
}

func TestExecPassesSignalsOnAndLivesToTell(t *testing.T) {
	t.Parallel()
	for _, sent := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(sent.String(), func(t *testing.T) {
			t.Parallel()
			cmd := execed(t, nil, "--fresh", "--", "env", roleVariable+"=signalled", os.Args[0])
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ready := make([]byte, len("ready\n"))
			if _, err := io.ReadFull(stdout, ready); err != nil || string(ready) != "ready\n" {
				t.Fatalf("%q, %v\n%s", ready, err, &stderr)
			}
			if err := cmd.Process.Signal(sent); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(stdout)
			if err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if string(got) != sent.String()+"\n" || cmd.ProcessState.ExitCode() != 7 || !strings.Contains(stderr.String(), "no request came through") {
				t.Errorf("the agent got %q; exit code %d; %s", got, cmd.ProcessState.ExitCode(), &stderr)
			}
		})
	}
}

func TestExecRunsANodeSDKScript(t *testing.T) {
	t.Parallel()
	node, modules := need(t, "UNLOOP_TEST_NODE"), need(t, "UNLOOP_TEST_NODE_MODULES")
	upstream := serve(t, greeting)
	r := runExec(t, []string{"NODE_PATH=" + modules, "OPENAI_API_KEY=sk-test", "OPENAI_BASE_URL=" + upstream.url + "/v1"},
		"--", node, "sdk/loop.js", "again", "7")
	r.contains(t, 0, `"answered":5`, "1 loop stopped: 2 requests")
}
