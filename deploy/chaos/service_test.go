package chaos

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/kit/freeport"
	"github.com/unloop/unloop/schemas/kit/pause"
)

// patience bounds what a test waits for.
const patience = 30 * time.Second

func startForTest(t *testing.T) *cluster {
	t.Helper()
	t.Setenv(roleVariable, "unloop")
	c, err := startCluster(t.Context(), os.Args[0], t.TempDir(), 1, checkTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	return c
}

// add starts one more process of the cluster.
func (c *cluster) add(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p, err := c.start(t.Context(), c.service(name, args...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// says returns what a process answers when it is asked whether it is ready.
func (c *cluster) says(p *process) (status int, why string) {
	res, err := c.client.Get("http://" + p.admin + p.ready)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body) // what there is
	return res.StatusCode, string(body)
}

// await waits until a process says so, and returns how long that took.
func (c *cluster) await(t *testing.T, p *process, status int, why string) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		is, said := c.says(p)
		if is == status && strings.Contains(strings.ToLower(said), why) {
			return time.Since(began)
		}
		if time.Since(began) > patience {
			t.Fatalf("%s says %d %q, want %d %q", p.name, is, said, status, why)
		}
		if err := pause.For(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

func logged(t *testing.T, p *process, what string) bool {
	t.Helper()
	log, err := os.ReadFile(p.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(strings.ToLower(string(log)), what)
}

func TestEveryServiceSaysWhyItCanNotDoItsJobAndEndsAllTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("seven processes")
	}
	c := startForTest(t)
	all := []*process{
		c.gateways[0], c.detectors[0],
		c.add(t, "notifier", "notifier", "--nats", c.nats),
		c.add(t, "embedworker", "embedworker", "--nats", c.nats, "--embedder", "lexical"),
	}
	c.servers[0].signal(syscall.SIGSTOP)
	for _, p := range all {
		t.Logf("%s says that NATS is silent after %s", p.name, c.await(t, p, http.StatusServiceUnavailable, "nats").Round(time.Millisecond))
	}
	c.servers[0].signal(syscall.SIGCONT)
	for _, p := range all {
		t.Logf("%s is ready again after %s", p.name, c.await(t, p, http.StatusOK, "ready").Round(time.Millisecond))
	}
	c.line.refuse(true)
	for _, p := range all[:2] {
		t.Logf("%s says why it is refused after %s", p.name, c.await(t, p, http.StatusServiceUnavailable, "authorization violation").Round(time.Millisecond))
		if !logged(t, p, "authorization violation") {
			t.Errorf("%s does not log why it is refused", p.name)
		}
	}
	c.line.refuse(false)
	for _, p := range all[:2] {
		c.await(t, p, http.StatusOK, "ready")
	}
	const longest = patience / 3 // a service that waits for NATS takes all of endWithin
	c.servers[0].signal(syscall.SIGSTOP)
	for _, p := range all {
		began := time.Now()
		p.end(syscall.SIGTERM)
		took := time.Since(began)
		t.Logf("%s ends after %s", p.name, took.Round(time.Millisecond))
		if p == c.gateways[0] {
			took -= shutdownDelay
		}
		if took > longest {
			t.Errorf("%s takes %s to end while NATS is silent, at most %s", p.name, took, longest)
		}
	}
}

func TestAWrongPasswordIsToldAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("six processes")
	}
	c := startForTest(t)
	_, addr, _ := strings.Cut(c.nats, "@")
	p := c.service("wrong", "detector", "--nats", "nats://wrong@"+addr)
	starting, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p.ready = "/healthz"
	p, err := c.start(starting, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	p.ready = "/readyz"
	t.Logf("reported after %s", c.await(t, p, http.StatusServiceUnavailable, "authorization violation"))
	if !logged(t, p, "authorization violation") {
		t.Error("the log does not say why")
	}
	if logged(t, p, "wrong@") {
		t.Error("the log has the password")
	}
}

// After SIGTERM a gateway is not ready, serves until load balancers have noticed, and
// then ends.
func TestAGatewayDrainsBeforeItStops(t *testing.T) {
	if testing.Short() {
		t.Skip("five processes")
	}
	c := startForTest(t)
	const delay = 3 * time.Second // longer than the test takes, on a machine under load too
	listen, err := freeport.Addr()
	if err != nil {
		t.Fatal(err)
	}
	g := c.add(t, "draining", "gateway", "--nats", c.nats, "--upstream", "openai="+c.upstream.URL, "--shutdown-delay", delay.String(), "--listen", listen)
	began := time.Now()
	g.signal(syscall.SIGTERM)
	c.await(t, g, http.StatusServiceUnavailable, "draining")
	said := time.Since(began)
	ask := func() answer { return c.sendTo(t.Context(), g.url(), fmt.Sprint("while it drains ", c.next())) }
	if a := ask(); a.err != nil && time.Since(began) < delay {
		t.Errorf("a request %s after the signal: %+v", time.Since(began), a)
	}
	<-g.ended
	took := time.Since(began)
	t.Logf("not ready after %s, ended after %s", said.Round(time.Millisecond), took.Round(time.Millisecond))
	if took < delay {
		t.Errorf("it ended after %s, before its delay of %s", took, delay)
	}
	if a := ask(); a.err == nil {
		t.Error("it serves after its end")
	}
}
