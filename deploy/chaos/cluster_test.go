package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/unloop/unloop/schemas/kit/freeport"
	"github.com/unloop/unloop/schemas/kit/pause"
)

const (
	// startWithin bounds the start of a process.
	startWithin = 30 * time.Second
	// endWithin bounds the end of a process after SIGTERM.
	endWithin = 30 * time.Second
	// shutdownDelay is the time that gateways serve after SIGTERM.
	shutdownDelay = time.Second
)

var errNotReady = errors.New("process is not ready")

// process is one process of the cluster. It can be restarted with the same arguments.
type process struct {
	name   string
	binary string
	// args come before the address of the admin port.
	args, env []string
	// admin is the address of its admin port, and ready the path of its readiness
	// check.
	admin, ready string
	log          *os.File
	cmd          *exec.Cmd
	ended        chan struct{} // closed when it has
}

// cluster is one NATS server or three, two detectors and two gateways in front of one
// upstream; a whole one has two embedding workers and two notifiers, too.
type cluster struct {
	// binary is the unloop binary of the processes that are started next.
	binary, dir string
	// nats is the direct address of NATS.
	nats     string
	upstream *httptest.Server
	servers  []*process
	// line is the way of the gateways and the first detector to a single server; nil with
	// three servers.
	line *line
	// disk is the disk of a single server, if it can be made full.
	disk      string
	victim    *process // the server that was killed last
	detectors []*process
	workers   []*process
	notifiers []*process
	gateways  []*process
	balancer  *balancer
	// patience is the gateways' --check-timeout.
	patience time.Duration
	// hook is where the notifiers of a whole cluster deliver.
	hook   *hook
	client *http.Client
	said   int
	attack attackers
}

func startCluster(ctx context.Context, binary, dir string, servers int, patience time.Duration) (*cluster, error) {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return nil, fmt.Errorf("find the binary: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	c := &cluster{binary: binary, dir: dir, patience: patience, client: &http.Client{
		Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 2 * edgeClients},
	}}
	c.balancer = newBalancer(c.ready)
	c.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`)
	}))
	way := c.startThree
	if servers == 1 {
		way = c.startOne
	}
	if err := c.startParts(ctx, way); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// startOne starts one server and returns its address for the services.
func (c *cluster) startOne(ctx context.Context) (string, error) {
	addr, err := freeport.Addr()
	if err != nil {
		return "", err
	}
	store := filepath.Join(c.dir, "disk")
	if err := os.Mkdir(store, 0o700); err != nil {
		return "", fmt.Errorf("make a folder: %w", err)
	}
	if mountDisk(store) == nil {
		c.disk = store
	}
	store = filepath.Join(store, "nats")
	if _, err := c.startAs(ctx, &c.servers, c.service("nats", "nats", "--nats-listen", addr, "--data-dir", store)); err != nil {
		return "", err
	}
	token, err := os.ReadFile(filepath.Join(store, "nats.token"))
	if err != nil {
		return "", fmt.Errorf("read the token of NATS: %w", err)
	}
	if c.line, err = newLine(addr); err != nil {
		return "", err
	}
	shown := "nats://" + strings.TrimSpace(string(token)) + "@"
	c.nats = shown + addr
	return shown + c.line.addr(), nil
}

// startThree starts three servers that replicate each other.
func (c *cluster) startThree(ctx context.Context) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	var clients, routes [3]string
	for i := range clients {
		client, err := freeport.Addr()
		route, errRoute := freeport.Addr()
		if err := errors.Join(err, errRoute); err != nil {
			return "", err
		}
		clients[i], routes[i] = client, route
	}
	for i := range clients {
		name := fmt.Sprint("nats", i)
		config := fmt.Sprintf(serverConfig, name, clients[i], filepath.Join(c.dir, name), routes[i], "nats://"+strings.Join(routes[:], ", nats://"))
		if _, err := c.startAs(ctx, &c.servers, &process{name: name, binary: self, ready: "/healthz?js-enabled-only=true", args: []string{serverRole, config}}); err != nil {
			return "", err
		}
	}
	c.nats = "nats://" + strings.Join(clients[:], ",nats://")
	return c.nats, nil
}

// eachCounts is the default policy with the source's rule for prompts: the load is one
// caller's, most of it unique, and its loops must be stopped at their sixth request.
const eachCounts = "bundle_version: 1\ncompat: [aisg]\npolicies:\n" +
	"  - {id: default, spec: {selector: {methods: [POST]}, prompt: {}, tool: {}, cycle: {}, semantic: {}}}\n"

func (c *cluster) startParts(ctx context.Context, servers func(context.Context) (string, error)) error {
	at, err := servers(ctx)
	if err != nil {
		return err
	}
	policies := filepath.Join(c.dir, "policies.yaml")
	if err := os.WriteFile(policies, []byte(eachCounts), 0o600); err != nil {
		return fmt.Errorf("write policies: %w", err)
	}
	replicas := fmt.Sprint("--replicas=", len(c.servers))
	for i, nats := range []string{at, c.nats} {
		if _, err := c.startAs(ctx, &c.detectors, c.service(fmt.Sprint("detector", i), "detector", "--nats", nats, replicas)); err != nil {
			return err
		}
	}
	for i := range 2 {
		listen, err := freeport.Addr()
		if err != nil {
			return err
		}
		g := c.service(fmt.Sprint("gateway", i), "gateway", "--nats", at, replicas, "--upstream", "openai="+c.upstream.URL, "--shutdown-delay", shutdownDelay.String(), "--listen", listen, "--policies", policies)
		g.env = []string{"UNLOOP_REJECT=429", "UNLOOP_CHECK_TIMEOUT=" + c.patience.String(), fmt.Sprint("UNLOOP_MAX_BODY_MEMORY=", bodyMemory)} // which older versions may not know
		if g, err = c.startAs(ctx, &c.gateways, g); err != nil {
			return err
		}
		c.balancer.add(g)
	}
	return nil
}

// service returns a process of the unloop binary.
func (c *cluster) service(name string, args ...string) *process {
	return &process{name: name, binary: c.binary, args: append(args, "--admin"), ready: "/readyz"}
}

// startAs starts a process and adds it to others of its kind.
func (c *cluster) startAs(ctx context.Context, to *[]*process, p *process) (*process, error) {
	p, err := c.start(ctx, p)
	if err == nil {
		*to = append(*to, p)
	}
	return p, err
}

// start gives a process an admin port and a log file, and starts it.
func (c *cluster) start(ctx context.Context, p *process) (_ *process, err error) {
	if p.admin, err = freeport.Addr(); err != nil {
		return nil, err
	}
	if p.log, err = os.Create(filepath.Join(c.dir, p.name+".log")); err != nil {
		return nil, fmt.Errorf("make a log: %w", err)
	}
	if err := c.run(ctx, p); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// run starts a process and waits until it is ready.
func (c *cluster) run(ctx context.Context, p *process) error {
	p.cmd = exec.Command(p.binary, append(slices.Clone(p.args), p.admin)...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, roleVariable + "=" + os.Getenv(roleVariable)}
	p.cmd.Env = append(p.cmd.Env, p.env...)
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	cmd, ended := p.cmd, make(chan struct{})
	p.ended = ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended is the fault's own
	}()
	for began := time.Now(); time.Since(began) < startWithin; {
		if c.ready(p) {
			return nil
		}
		if err := pause.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	log, _ := os.ReadFile(p.log.Name()) // what there is of it
	return fmt.Errorf("%w: %s: %s", errNotReady, p.name, log)
}

// roleVariable makes the test's program play the role of another one.
const roleVariable = "CHAOS_ROLE"

// ready reports whether the readiness check of a process succeeds.
func (c *cluster) ready(p *process) bool {
	res, err := c.client.Get("http://" + p.admin + p.ready)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// end sends a signal and waits for the end; after endWithin it kills the process.
func (p *process) end(sig syscall.Signal) {
	p.signal(sig)
	select {
	case <-p.ended:
	case <-time.After(endWithin):
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
}

// kill ends a process in any state.
func (p *process) kill() {
	if p.ended != nil {
		p.signal(syscall.SIGCONT)
		p.end(syscall.SIGKILL)
	}
	_ = p.log.Close()
}

func (c *cluster) parts() []*process {
	return slices.Concat(c.servers, c.detectors, c.workers, c.notifiers, c.gateways)
}

func (c *cluster) stop() {
	c.endAttack()
	c.balancer.stop()
	for _, p := range c.parts() {
		p.kill()
	}
	if c.line != nil {
		c.line.close()
	}
	if c.disk != "" {
		_ = unmountDisk(c.disk) // nobody uses it any more
	}
	if c.hook != nil {
		c.hook.Close()
	}
	c.upstream.Close()
}
