package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// output collects what a command prints, and signals each write.
type output struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	printed chan struct{}
}

func newOutput() *output { return &output{printed: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.printed <- struct{}{}:
	default:
	}
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// await returns once the output matches, with the match's groups.
func (o *output) await(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	timeout := time.After(time.Minute)
	for {
		if m := re.FindStringSubmatch(o.String()); m != nil {
			return m
		}
		select {
		case <-o.printed:
		case <-timeout:
			t.Fatalf("no %q in:\n%s", pattern, o)
		}
	}
}

// command runs one command line to its end.
func command(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, nil, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// background runs a command line until the test ends or stop is called, which
// returns its exit code.
func background(t *testing.T, args ...string) (out *output, stop func() int) {
	t.Helper()
	out = newOutput()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan int, 1)
	go func() { done <- run(ctx, args, nil, out, out) }()
	stop = sync.OnceValue(func() int { cancel(); return <-done })
	t.Cleanup(func() { stop() })
	return out, stop
}

// demo runs the demonstration on free ports and returns where it listens.
func demo(t *testing.T) (gateway, nats, admin string) {
	t.Helper()
	natsAddr := natstest.FreeAddr(t)
	out, _ := background(t, "demo", "--fast", "--only", "exact", "--reject", "429", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--nats-listen", natsAddr)
	out.await(t, "The demonstration runs on until Ctrl-C")
	gateway = out.await(t, `Unloop is ready at (http://[0-9.:]+)\.`)[1]
	admin = out.await(t, `(http://[0-9.:]+)/`)[1]
	return gateway, "nats://" + natsAddr, admin
}

func occupied(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

func TestDemoStopsTheLoopingAgentsAlone(t *testing.T) {
	t.Parallel()
	code, out, errOut := command(t, "demo", "--once", "--fast", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0")
	if code != 0 || errOut != "" {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	parts := strings.Split(out, "\n\n")
	if len(parts) != 7 {
		t.Fatalf("printed:\n%s", out)
	}
	for i, want := range []string{
		"200 200 200 200 200",
		"200 200 200 200 200 429 400",
		"200 200 200 hint 200 hint 429 400",
		"200 200 200 200 200 200 200 hint 200 hint 429 400",
		"200 200 200" + strings.Repeat(" 200 hint", 9),
	} {
		var got []string
		for _, m := range regexp.MustCompile(`(?m) {2}(\d{3})(?: (hint|stopped) \(.*)?$`).FindAllStringSubmatch(parts[i+1], -1) {
			got = append(got, strings.TrimSuffix(m[1]+" "+strings.TrimPrefix(m[2], "stopped"), " "))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("agent %d: %s, want %s\n%s", i+1, strings.Join(got, " "), want, parts[i+1])
		}
	}
	if !strings.Contains(parts[6], "40 requests; 6 of them never reached the model.") {
		t.Errorf("at the end: %s", parts[6])
	}
}

func TestOpenLoopsAreListedShownAndReleased(t *testing.T) {
	t.Parallel()
	gateway, nats, admin := demo(t)
	code, out, errOut := command(t, "loops", "--nats", nats, "--json")
	var loop struct {
		ID     string `json:"loop_id"`
		Policy string
		Action string
	}
	if err := json.Unmarshal([]byte(out), &loop); code != 0 || err != nil || loop.Policy != "default" || loop.Action != "reject" {
		t.Fatalf("loops --json: code %d, %v, %s%s", code, err, out, errOut)
	}
	if _, out, _ = command(t, "loops", "--nats", nats); !strings.Contains(out, loop.ID) || !strings.Contains(out, "prompt") {
		t.Errorf("loops printed:\n%s", out)
	}
	if code, out, _ = command(t, "loops", "show", loop.ID, "-j", "--nats", nats); code != 0 || !strings.Contains(out, `"counters"`) {
		t.Errorf("loops show --json: code %d\n%s", code, out)
	}
	if code, out, _ = command(t, "loops", "show", loop.ID, "--nats", nats, "--admin", admin); code != 0 || !strings.Contains(out, "What it repeats, as of ") || !strings.Contains(out, "\nprompt     ") {
		t.Errorf("loops show with rounds: code %d\n%s", code, out)
	}
	if code, out, _ = command(t, "loops", "show", loop.ID[:10], "--nats", nats); code != 0 || !strings.Contains(out, "the same prompt") ||
		!strings.Contains(out, "unloop loops release "+loop.ID) {
		t.Errorf("loops show of the beginning of an id: code %d\n%s", code, out)
	}
	if code, out, _ = command(t, "loops", "--policy", "none", "--nats", nats); code != 0 || out != "No open loop matches.\n" {
		t.Errorf("loops of another policy: code %d\n%s", code, out)
	}
	if code, out, errOut = command(t, "loops", "release", "--all", "--policy", "default", "--nats", nats); code != 0 || !strings.Contains(out, "Released "+loop.ID+": 2 counters restart.") {
		t.Errorf("loops release: code %d\n%s%s", code, out, errOut)
	}
	eventually(t, http.StatusOK, func() int { // the gateway hears of the release when the command does
		status, _, err := ask(t.Context(), gateway, "exact", scenes()[1].turns[0].messages)
		if err != nil {
			t.Fatal(err)
		}
		return status
	})
	if code, _, errOut := command(t, "loops", "release", loop.ID, "--nats", nats); code != 1 || !strings.Contains(errOut, loop.ID) {
		t.Errorf("release of a released loop: code %d, %s", code, errOut)
	}
	eventually(t, 0, func() int { // once the end is announced
		code, out, _ := command(t, "loops", "show", loop.ID[:10], "--nats", nats)
		if code == 0 && (!strings.Contains(out, "The loop has ended (released): its requests pass again.") || strings.Contains(out, "unloop loops release")) {
			t.Errorf("loops show of a released loop:\n%s", out)
		}
		return code
	})
	if code, _, errOut := command(t, "loops", "show", "unknown", "--nats", nats); code != 1 || !strings.Contains(errOut, "no loop has the id unknown") {
		t.Errorf("an unknown loop: code %d, %s", code, errOut)
	}
}

func TestEventsOfToolLoopsNameTheToolsOfTheirStrongestFinding(t *testing.T) {
	t.Parallel()
	e := event.New(event.Detected, "l-1.loop.detected", time.Now())
	e.Data = event.Data{LoopID: "l-1", Policy: "default", Detector: "tool", Action: "reject", HitCount: 5, WindowSeconds: 1800, Findings: []event.Finding{
		{Detector: "tool", Action: "hint", Tool: "grep"}, {Detector: "cycle", Action: "reject", Tool: "a,b"}, {Detector: "tool", Action: "reject", Tool: "read_file"},
	}}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	new(eventsCmd).print(&printer{w: &out}, body)
	if !strings.Contains(out.String(), "detected  l-1  reject: the same tool call (read_file) with the same result 5 times; policy default, detector tool") {
		t.Errorf("printed %q", out.String())
	}
}

func TestEventsArePrintedForPeopleAndAsJSON(t *testing.T) {
	t.Parallel()
	_, nats, _ := demo(t)
	if code, out, _ := command(t, "events", "--count", "1", "--nats", nats); code != 0 || !strings.Contains(out, "detected  ") || !strings.Contains(out, "reject: the same prompt 6 times within 60 seconds") {
		t.Errorf("events: code %d\n%s", code, out)
	}
	code, out, _ := command(t, "events", "--count", "1", "--json", "--nats", nats)
	var e struct{ Type string }
	if err := json.Unmarshal([]byte(out), &e); code != 0 || err != nil || e.Type != "loop.detected" {
		t.Errorf("events --json: code %d, %v\n%s", code, err, out)
	}
}

func TestEventsAreFilteredAndWaitedFor(t *testing.T) {
	t.Parallel()
	_, nats, _ := demo(t)
	for _, filter := range [][]string{{"--policy", "none"}, {"--type", "resolved"}, {"--detector", "tool"}} {
		out, stop := background(t, append([]string{"events", "-n", "1", "--since", "1d", "--nats", nats}, filter...)...)
		out.await(t, "unloop: 0 events in the last 1d; waiting for 1 event, until Ctrl-C")
		if code := stop(); code != 0 || strings.Contains(out.String(), "detected") {
			t.Errorf("%v: code %d\n%s", filter, code, out)
		}
	}
	out, _ := background(t, "events", "-t", "", "--nats", nats)
	out.await(t, "unloop: 1 event in the last 1h; waiting for events, until Ctrl-C")
	if code, _, errOut := command(t, "events", "--count", "-1"); code == 0 || !strings.Contains(errOut, "--count") {
		t.Errorf("a negative count: %d, %s", code, errOut)
	}
}

func TestAdminPortSaysWhatIsReady(t *testing.T) {
	t.Parallel()
	admin := natstest.FreeAddr(t)
	out, stop := background(t, "up", "--data-dir", "memory", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--admin", admin)
	out.await(t, "Unloop is ready")
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "gateway: ready\ndetector: ready\n", "/metrics": "unloop_detector_checks_total"} {
		res, err := http.Get("http://" + admin + path)
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		_, _ = body.ReadFrom(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK || path != "/metrics" && !strings.Contains(body.String(), want) {
			t.Errorf("%s: %d %s", path, res.StatusCode, body.String())
		}
	}
	if code := stop(); code != 0 {
		t.Errorf("exit code %d after an interrupt", code)
	}
}

func TestFaultsNameTheFlagAndTheMend(t *testing.T) {
	t.Parallel()
	taken := occupied(t).Addr().String()
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("bundle_version: 1\npolicies:\n  - {id: a, spec: {prompt: {max_hit: 5}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	free := []string{"--data-dir", "memory", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0"}
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"listen taken":         {[]string{"--listen", taken}, 1, []string{"--listen " + taken, "address already in use"}},
		"admin taken":          {[]string{"--admin", taken}, 1, []string{"--admin " + taken}},
		"nats-listen taken":    {[]string{"--nats-listen", taken}, 1, []string{"--nats-listen " + taken}},
		"open to the network":  {[]string{"--listen", "0.0.0.0:0"}, 1, []string{"--listen 0.0.0.0:0", "--insecure"}},
		"admin to the network": {[]string{"--admin", "0.0.0.0:0"}, 1, []string{"--admin 0.0.0.0:0"}},
		"bad upstream":         {[]string{"--upstream", "a=ftp://x"}, 2, []string{"--upstream a", "https://host"}},
		"bad policy":           {[]string{"--policies", bad}, 1, []string{"--policies", "max_hit", "max_hits"}},
		"no policy file":       {[]string{"--policies", bad + ".not"}, 1, []string{"--policies"}},
		"zero timeout":         {[]string{"--check-timeout", "0s"}, 2, []string{"--check-timeout"}},
		"unknown flag":         {[]string{"--listne", "x"}, 2, []string{"--listne"}},
		"unknown log form":     {[]string{"--log-format", "xml"}, 2, []string{"log-format"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, errOut := command(t, append(append([]string{"up"}, free...), c.args...)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(errOut, want) {
					t.Errorf("no %q in: %s", want, errOut)
				}
			}
		})
	}
}

// What stops one of the services stops all, and is said once.
func TestModelThatDoesNotWorkIsSaidOnce(t *testing.T) {
	t.Parallel()
	free := []string{"up", "--data-dir", "memory", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0"}
	code, _, errOut := command(t, append(free, "--embedder", "onnx", "--model", t.TempDir())...)
	if code != 1 || strings.Count(errOut, "open ONNX embedder") != 1 || !strings.Contains(errOut, "unloop: run embedworker") {
		t.Errorf("exit code %d, %s", code, errOut)
	}
}

func TestUpSaysWhereAnotherOneRuns(t *testing.T) {
	t.Parallel()
	listen := natstest.FreeAddr(t)
	args := []string{"up", "--data-dir", t.TempDir(), "--listen", listen, "--admin", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0"}
	out, _ := background(t, args...)
	out.await(t, "Unloop is ready")
	for _, flag := range []string{"unloop exec --gateway http://" + listen + " --nats nats://127.0.0.1:", "unloop loops --nats nats://127.0.0.1:"} {
		if !strings.Contains(out.String(), flag) {
			t.Errorf("no %q in the banner:\n%s", flag, out)
		}
	}
	if code, _, errOut := command(t, args...); code != 1 || !strings.Contains(errOut, "another Unloop is running already at http://"+listen) || !strings.Contains(errOut, "unloop status") {
		t.Errorf("a second one: exit code %d, %s", code, errOut)
	}
}

func TestDemoTakesOtherPortsWhereTheUsualOnesAreTaken(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{natstest.FreeAddr(t): true, occupied(t).Addr().String(): false} {
		if got := isFree(addr); got != want {
			t.Errorf("%s is free: %v", addr, got)
		}
	}
}

func TestSecondProcessOnOneDataDirIsRefused(t *testing.T) {
	t.Parallel()
	args := []string{"up", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0"}
	out, stop := background(t, args...)
	out.await(t, "Unloop is ready")
	if code, _, errOut := command(t, args...); code != 1 || !strings.Contains(errOut, "--data-dir") {
		t.Errorf("exit code %d, %s", code, errOut)
	}
	stop()
	again, _ := background(t, args...)
	again.await(t, "Unloop is ready")
}

func TestWithoutAServerClientsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"loops"}, {"events"}, {"loops", "release", "x"}} {
		code, _, errOut := command(t, append(args, "--nats", "nats://"+natstest.FreeAddr(t))...)
		if code != 1 || !strings.Contains(errOut, "unloop up") || !strings.Contains(errOut, "--nats") {
			t.Errorf("%v: exit code %d, %s", args, code, errOut)
		}
	}
}

func TestUnknownVariablesAreWarnedOfAndNoMore(t *testing.T) {
	t.Parallel()
	var out, errOut bytes.Buffer
	environ := []string{"UNLOOP_LISTEN=127.0.0.1:0", "UNLOOP_SERVICE_HOST=10.0.0.1", "OTHER=1"}
	code := run(t.Context(), []string{"demo", "--once", "--fast", "--only", "honest", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0"}, environ, &out, &errOut)
	if code != 0 || !strings.Contains(errOut.String(), "UNLOOP_SERVICE_HOST") || strings.Contains(errOut.String(), "UNLOOP_LISTEN ") {
		t.Errorf("exit code %d, %s", code, errOut.String())
	}
}
