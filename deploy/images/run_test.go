package images

import (
	"bufio"
	"context"
	"debug/elf"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/unloop/unloop/deploy/scripted"
)

// TestTheClusterBuildsAndRuns builds as the Dockerfile does and runs what
// compose.yaml describes. Only addresses differ, since here all services share
// one network.
func TestTheClusterBuildsAndRuns(t *testing.T) {
	t.Parallel()
	if os.Getenv("UNLOOP_TEST_IMAGES") == "" {
		t.Skip("UNLOOP_TEST_IMAGES is not set; make images sets it")
	}
	stages := readDockerfile(t)
	src := buildOutside(t, stages["build"])
	checkCopies(t, stages, src)

	file := readCompose(t)
	cluster := cluster{
		file: file, bin: filepath.Join(src, "bin"),
		addresses: strings.NewReplacer(
			"nats:4222", startNATS(t, file.Services["nats"]),
			"0.0.0.0:8080", "127.0.0.1:0",
			"0.0.0.0:8081", "127.0.0.1:0",
		),
	}
	upstream := scripted.New(nil)
	model := httptest.NewServer(upstream)
	t.Cleanup(model.Close)
	cluster.finish(t, "nats-init")
	for range file.Services["detector"].Deploy.Replicas {
		cluster.run(t, "detector")
	}
	cluster.run(t, "notifier")
	cluster.run(t, "embedworker")
	gateway := cluster.run(t, "gateway", "--upstream", "openai="+model.URL, "--check-timeout", "20s")

	checkBuilt(t, cluster.bin)
	checkAllInOne(t, cluster.bin, stages["unloop"])
	for i := range 6 {
		status := ask(t, "http://"+gateway.address("listen"))
		if want := map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[i < 5]; status != want {
			t.Errorf("request %d was answered with %d, want %d", i+1, status, want)
		}
	}
}

func ask(t *testing.T, url string) int {
	t.Helper()
	body := `{"model":"m","messages":[{"role":"user","content":"Are we there yet?"}]}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer sk-test")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil { // whoever leaves early is not counted
		t.Fatal(err)
	}
	return resp.StatusCode
}

// checkAllInOne runs the image's command with its variables, and expects it to answer at
// an address that is not the one that only its own machine reaches: all of 127.0.0.0/8 is
// this machine, but a listener at 127.0.0.1 answers there alone.
func checkAllInOne(t *testing.T, bin string, s stage) {
	t.Helper()
	dir := t.TempDir()
	ports := strings.NewReplacer("0.0.0.0:8080", "0.0.0.0:0", "0.0.0.0:8081", "0.0.0.0:0", "/data", dir)
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "unloop"), "up", "--nats-listen", "127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = []string{"GOCOVERDIR=" + os.Getenv("GOCOVERDIR")}
	for _, line := range s.all("ENV") {
		for pair := range strings.FieldsSeq(line) {
			cmd.Env = append(cmd.Env, ports.Replace(pair))
		}
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		if _, err := io.Copy(io.Discard, out); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // the context's end is its error
	}()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		for _, name := range []string{"Anthropic", "see it in a browser"} {
			if base, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), name); ok {
				base = strings.Replace(strings.TrimSpace(base), "127.0.0.1", "127.0.0.2", 1)
				get(t, base+map[string]string{"Anthropic": "/unloop/v1/ping"}[name])
			}
		}
		if strings.Contains(lines.Text(), "/metrics") {
			return
		}
	}
	t.Error("the image's command ended")
}

// checkBuilt expects binaries that are stripped and say their version.
func checkBuilt(t *testing.T, bin string) {
	t.Helper()
	for _, name := range []string{"gateway", "detector", "notifier", "embedworker", "unloop", "healthcheck"} {
		f, err := elf.Open(filepath.Join(bin, name))
		if err != nil {
			t.Fatal(err)
		}
		if f.Section(".symtab") != nil || f.Section(".debug_info") != nil {
			t.Errorf("%s is not stripped", name)
		}
		_ = f.Close() // only read
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "unloop"), "--version").Output()
	if want := "unloop " + testVersion + ", revision " + testRevision[:12] + ", go"; err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("unloop --version: %s, %v; want %s", out, err, want)
	}
}

// startNATS runs the server of the file's configuration, and the check of its health, in
// this process. It returns its address.
func startNATS(t *testing.T, s service) string {
	t.Helper()
	opts := natsOptions(t, s)
	if !opts.JetStream || s.Volumes[0].Target != opts.StoreDir {
		t.Errorf("NATS stores in %s, but the volume is %s", opts.StoreDir, s.Volumes[0].Target)
	}
	check := s.Healthcheck.Test[len(s.Healthcheck.Test)-1]
	inside := "http://127.0.0.1:" + strconv.Itoa(opts.HTTPPort)
	if !strings.HasPrefix(check, inside) {
		t.Errorf("NATS is checked at %s, but listens at %s", check, inside)
	}
	opts.Host, opts.Port, opts.HTTPHost, opts.HTTPPort = "127.0.0.1", server.RANDOM_PORT, "127.0.0.1", server.RANDOM_PORT
	opts.StoreDir, opts.NoSigs, opts.NoLog = t.TempDir(), true, true
	ns, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	go ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(20 * time.Second) {
		t.Fatal("NATS does not accept connections")
	}
	get(t, strings.Replace(check, inside, "http://"+ns.MonitorAddr().String(), 1))
	return ns.Addr().String()
}

// natsOptions reads the configuration of the image, with the variables of the service.
func natsOptions(t *testing.T, s service) *server.Options {
	t.Helper()
	text := read(t, "nats.conf")
	for name := range s.Environment {
		text = strings.ReplaceAll(text, "$"+name, s.env(name))
	}
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatalf("read nats.conf: %v", err)
	}
	return opts
}

func get(t *testing.T, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("GET %s: %s", url, resp.Status)
	}
}

// cluster runs services of the file as processes.
type cluster struct {
	file      composeFile
	bin       string
	addresses *strings.Replacer
}

// process is a service that runs, with the addresses that it logged.
type process struct {
	t    *testing.T
	name string
	logs chan map[string]any
	seen map[string]string
}

// run starts a service with the file's command and environment, waits until
// the image's health check passes, and ends it with the test.
func (c cluster) run(t *testing.T, name string, more ...string) *process {
	t.Helper()
	cmd := c.command(t, name, more)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	p := &process{t: t, name: name, logs: make(chan map[string]any, 1000), seen: map[string]string{}}
	go p.read(stderr)
	t.Cleanup(func() {
		for line := range p.logs { // ends with the process, which the test's context ends
			p.note(line)
		}
		_ = cmd.Wait() // the context's end is its error; the exit code is what counts
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s ended with %d", name, code)
		}
	})
	c.waitHealthy(t, p)
	return p
}

// command returns a service's command with its environment.
func (c cluster) command(t *testing.T, name string, args []string) *exec.Cmd {
	t.Helper()
	s := c.file.Services[name]
	for _, arg := range s.Command {
		args = append(args, c.addresses.Replace(arg))
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(c.bin, s.Build.Target), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GOCOVERDIR=" + os.Getenv("GOCOVERDIR")}
	for key, value := range s.Environment {
		if value != nil {
			cmd.Env = append(cmd.Env, key+"="+c.addresses.Replace(*value))
		}
	}
	return cmd
}

// finish runs a service that ends by itself.
func (c cluster) finish(t *testing.T, name string) {
	t.Helper()
	if out, err := c.command(t, name, nil).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// waitHealthy asks as the image's health check does, until it passes.
func (c cluster) waitHealthy(t *testing.T, p *process) {
	t.Helper()
	url := "http://" + p.address("admin") + "/readyz"
	deadline := time.Now().Add(30 * time.Second)
	for {
		out, err := exec.CommandContext(t.Context(), filepath.Join(c.bin, "healthcheck"), url).CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not healthy: %v: %s", p.name, err, out)
		}
	}
}

// read hands on the JSON lines of a log, until its writer ends.
func (p *process) read(log io.Reader) {
	defer close(p.logs)
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		line := map[string]any{}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			line["text"] = lines.Text()
		}
		p.logs <- line
	}
}

// note keeps the addresses of a line, and finds fault with warnings: in a
// cluster that is set up as it should be, there are none.
func (p *process) note(line map[string]any) {
	for key, value := range line {
		if text, ok := value.(string); ok {
			p.seen[key] = text
		}
	}
	if line["level"] != "INFO" && line["msg"] != "loop detected" {
		p.t.Errorf("%s says: %v", p.name, line)
	}
}

// address is one that the service logs under the key, such as "admin".
func (p *process) address(key string) string {
	p.t.Helper()
	for p.seen[key] == "" {
		line, ok := <-p.logs
		if !ok {
			p.t.Fatalf("%s ended without telling its %s address", p.name, key)
		}
		p.note(line)
	}
	return p.seen[key]
}
