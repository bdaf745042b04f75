package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unloop/unloop/deploy/scripted"
	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/pause"
	"github.com/unloop/unloop/schemas/kit/service"
)

// demoCommands are the demo, and its parts for use with a cluster.
type demoCommands struct {
	Run    demoCmd       `cmd:"" default:"withargs" help:"Run everything in memory, and show looping agents."`
	Model  demoModelCmd  `cmd:"" help:"Serve the demo's scripted model alone, as an upstream for a gateway."`
	Agents demoAgentsCmd `cmd:"" help:"Run the demo's agents alone, through a gateway whose upstream is the scripted model."`
}

type demoCmd struct {
	Once           bool     `env:"-" short:"1" help:"Exit after the demo instead of staying up."`
	Fast           bool     `env:"-" help:"Do not pause between requests."`
	Only           []string `env:"-" enum:"honest,exact,tool,cycle,reworded" placeholder:"AGENT" help:"Show only this agent: honest, exact, tool, cycle or reworded. Repeatable."`
	gateway.Config `group:"gateway"`
	NATSListen     string `name:"nats-listen" group:"nats" default:"127.0.0.1:4222" placeholder:"ADDR" help:"Address of the embedded NATS server."`

	service.Process `group:"process"`
}

// The pauses let people follow the demo.
const (
	betweenTurns  = 250 * time.Millisecond
	betweenScenes = time.Second
)

// demoCheck is how long requests of the demo wait for a decision: long enough that it goes the
// same way on a busy machine.
const demoCheck = 2 * time.Second

// embeddingTimeout is the variable for how long a request waits for the semantic detector of
// the default policy. The demo sets it to demoCheck, too.
const embeddingTimeout = "LOOP_EMBEDDING_SIDECAR_TIMEOUT"

// Run runs everything in memory with a scripted model as the only upstream, and shows agents
// that loop and one that does not. Where the default ports are taken it uses free ones.
func (c *demoCmd) Run(ctx context.Context, std streams) error {
	model, err := startModel(ctx)
	if err != nil {
		return err
	}
	c.Upstream = map[string]string{"default": model}
	for _, u := range gateway.Upstreams() {
		c.Upstream[u.Name] = model
	}
	for addr, usual := range map[*string]string{&c.Listen: usualListen, &c.Admin: usualAdmin, &c.NATSListen: usualNATS} {
		if *addr == usual && !isFree(usual) {
			*addr = system.FreePort
		}
	}
	c.CheckTimeout = max(c.CheckTimeout, demoCheck)
	if c.LogLevel == "info" {
		c.LogLevel = "error" // log lines would interrupt the demo
	}
	defaults := system.DefaultConfig()
	up := upCmd{
		Process: c.Process, NATSListen: c.NATSListen, DataDir: natskit.InMemory, Config: c.Config,
		Notifier: defaults.Notifier, Embedworker: defaults.Embedworker,
	}
	if os.Getenv(embeddingTimeout) == "" {
		if err := os.Setenv(embeddingTimeout, demoCheck.String()); err != nil {
			return fmt.Errorf("set %s: %w", embeddingTimeout, err)
		}
	}
	s, err := up.start(ctx, std)
	if err != nil {
		return err
	}
	err = runSystem(ctx, s, func(ctx context.Context) error {
		d := demonstration{out: std.printer(), url: s.URL(), fast: c.Fast, only: c.Only}
		d.out.printf("Unloop is ready at %s. Behind it is a scripted model: nothing leaves this machine.\n", d.url)
		if err := d.run(ctx); err != nil {
			return err
		}
		if c.Once {
			return errDone
		}
		d.out.printf("\nThe demonstration runs on until Ctrl-C. Meanwhile, in another terminal:\n\n%s", commands(s))
		return d.out.err
	})
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

// demoPriced is the model in requests. It has a price, so that the dashboard shows savings.
const demoPriced = "gpt-4o"

// errDone ends a demo with --once.
var errDone = errors.New("demonstration done")

// isFree reports whether nobody listens at an address.
func isFree(addr string) bool {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	return ln.Close() == nil
}

// startModel serves a scripted model on a free port until the context ends.
func startModel(ctx context.Context) (string, error) {
	ln, err := net.Listen("tcp", system.FreePort)
	if err != nil {
		return "", fmt.Errorf("listen for the scripted model: %w", err)
	}
	go func() { _ = serveModel(ctx, ln) }() // its end is the process's
	return "http://" + ln.Addr().String(), nil
}

// serveModel serves a scripted model, with a health check at /healthz, until the context ends.
func serveModel(ctx context.Context, ln net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("/", scripted.Handler(func(scripted.Request) scripted.Reply { return scripted.Text("Let me look into that.") }))
	return service.ServeHTTP(ctx, &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}, ln, time.Second)
}

// demonstration sends the requests of the scenes through a gateway and prints their outcomes.
type demonstration struct {
	out  *printer
	url  string
	fast bool
	// only names the scenes to show; empty means all.
	only []string
	// suffix makes the session names of repeated demos distinct.
	suffix string
	// sent and stopped count the requests.
	sent, stopped int
}

func (d *demonstration) run(ctx context.Context) error {
	for _, s := range scenes() {
		if len(d.only) > 0 && !slices.Contains(d.only, s.session) {
			continue
		}
		d.out.printf("\n%s\n", d.out.screen.Paint(terminal.Bold, s.title))
		for i, t := range s.turns {
			if err := d.pause(ctx, betweenTurns); err != nil {
				return err
			}
			if err := d.show(ctx, s, i, t); err != nil {
				return err
			}
		}
		if err := d.pause(ctx, betweenScenes); err != nil {
			return err
		}
	}
	d.out.printf("\n%s; %d of them never reached the model.\n", plural(d.sent, "request"), d.stopped)
	return d.out.err
}

// pause waits, unless with --fast.
func (d *demonstration) pause(ctx context.Context, wait time.Duration) error {
	if d.fast {
		return ctx.Err()
	}
	return pause.For(ctx, wait)
}

// show sends one request and prints its outcome.
func (d *demonstration) show(ctx context.Context, s scene, i int, t turn) error {
	status, h, err := ask(ctx, d.url, "demo-"+s.session+d.suffix, t.messages)
	if err != nil {
		return err
	}
	d.sent++
	head := fmt.Sprintf("  %2d  ", i+1)
	says := terminal.Truncate(t.says, max(d.room()-len(head), 20))
	style, words := outcome(status, h)
	if style == terminal.Red {
		d.stopped++
	}
	d.out.printf("%s%-*s  %s\n", head, d.room()-len(head), says, d.out.screen.Paint(style, words))
	return d.out.err
}

// room is the width before the outcome.
func (d *demonstration) room() int {
	if d.out.screen.Width > 0 && d.out.screen.Width < 100 {
		return max(d.out.screen.Width-36, 30)
	}
	return 64
}

// outcome describes the outcome of a request.
func outcome(status int, h http.Header) (style terminal.Style, words string) {
	by := fmt.Sprintf("detector %s, count %s", h.Get("X-Loop-Detector"), h.Get("X-Loop-Count"))
	switch action := h.Get("X-Loop-Action"); action {
	case "":
		return terminal.Green, strconv.Itoa(status)
	case "reject", "break":
		return terminal.Red, fmt.Sprintf("%d stopped (%s)", status, by)
	default:
		return terminal.Yellow, fmt.Sprintf("%d %s (%s)", status, action, by)
	}
}

// ask sends an agent's request and returns the status and the headers of the response.
func ask(ctx context.Context, url, session string, messages []message) (status int, h http.Header, err error) {
	body, err := json.Marshal(map[string]any{"model": demoPriced, "messages": messages})
	if err != nil {
		return 0, nil, fmt.Errorf("ask: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		return 0, nil, fmt.Errorf("ask: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+session)
	req.Header.Set("X-Session-Id", session)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("ask: %w", err)
	}
	return res.StatusCode, res.Header, res.Body.Close()
}
