package images

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// project is compose.yaml under a real Docker engine.
type project struct{ env []string }

// startProject builds the images and starts two gateways behind the balancer, four
// detectors and the demonstration. The test's end removes all but the images.
func startProject(t *testing.T) project {
	t.Helper()
	p := project{env: append(os.Environ(), "COMPOSE_PROJECT_NAME=unloop-test", "COMPOSE_PROFILES=ha,demo", "UNLOOP_PORT=0", "UNLOOP_ADMIN_PORT=0",
		"UNLOOP_GATEWAY_PORT=0", "UNLOOP_DASHBOARD_PORT=0", "UNLOOP_NATS_PORT=0", "UNLOOP_DEMO_PORT=0",
		"UNLOOP_UPSTREAM=openai=http://demo-model:8080 own=http://demo-model:8080", "UNLOOP_CHECK_TIMEOUT=2s")}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.try("logs", "--no-color", "--tail", "30"))
		}
		if out, err := p.try("down", "--volumes"); err != nil {
			t.Errorf("docker compose down: %v\n%s", err, out)
		}
	})
	p.run(t, "build")
	p.run(t, "up", "--detach", "--wait", "--scale", "gateway=2", "--scale", "detector=4")
	return p
}

// try runs docker compose and returns what it prints.
func (p project) try(args ...string) (string, error) {
	cmd := exec.Command("docker", append([]string{"compose", "--file", "../../compose.yaml"}, args...)...)
	cmd.Env = p.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p project) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.try(args...)
	if err != nil {
		t.Fatalf("docker compose %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// address returns where a port of a service is published.
func (p project) address(t *testing.T, service, port string) string {
	t.Helper()
	return strings.TrimSpace(p.run(t, "port", service, port))
}

// TestComposeUnderARealEngine is for `make compose`: it needs a Docker engine, with compose
// and buildx, and the images that the Dockerfile and compose.yaml name.
func TestComposeUnderARealEngine(t *testing.T) {
	if os.Getenv("UNLOOP_TEST_ENGINE") == "" {
		t.Skip("make compose runs it")
	}
	if out, err := exec.CommandContext(t.Context(), "docker", "info").CombinedOutput(); err != nil {
		t.Skipf("no Docker engine: %s", out)
	}
	p := startProject(t)
	url := "http://" + p.address(t, "balancer", "8080")
	round := 0
	exact := func(t *testing.T) {
		t.Helper()
		round++
		if passed := together(t, url, fmt.Sprintf("Are we there yet, %d?", round)); passed != 5 {
			t.Errorf("of 100 identical requests at once %d passed, want 5", passed)
		}
	}
	exact(t)
	exact(t)
	if loops := p.run(t, "run", "--rm", "cli", "loops"); strings.Count(loops, "prompt") < 2 {
		t.Errorf("unloop loops: %s", loops)
	}
	for _, service := range []string{"detector", "gateway", "embedworker", "notifier", "nats"} {
		p.run(t, "kill", "--signal", "SIGKILL", service)
		p.run(t, "up", "--detach", "--wait", "--no-recreate", "--scale", "gateway=2", "--scale", "detector=4")
		exact(t)
	}
	if status := p.run(t, "run", "--rm", "cli", "status"); !strings.Contains(status, "detector") {
		t.Errorf("unloop status: %s", status)
	}
}

// together sends 100 identical requests at once and returns how many were answered with
// 200. All others must be stopped.
func together(t *testing.T, url, prompt string) int {
	t.Helper()
	var mu sync.Mutex
	var wait sync.WaitGroup
	passed := 0
	client := &http.Client{Timeout: time.Minute}
	for range 100 {
		wait.Go(func() {
			body := `{"model":"m","messages":[{"role":"user","content":"` + prompt + `"}]}`
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer sk-"+prompt[len(prompt)-2:])
			resp, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			switch resp.StatusCode {
			case http.StatusOK:
				passed++
			case http.StatusTooManyRequests, http.StatusBadRequest:
			default:
				t.Errorf("answered with %s, degraded %q", resp.Status, resp.Header.Get("X-Loop-Degraded"))
			}
		})
	}
	wait.Wait()
	return passed
}
