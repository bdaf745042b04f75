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

// demoCommands lists the demonstration and its parts. The parts are for a cluster.
type demoCommands struct {
	Run    demoCmd       `cmd:"" default:"withargs" help:"Run everything in memory and show looping agents."`
	Model  demoModelCmd  `cmd:"" help:"Serve only the demo's scripted model, as an upstream for a gateway."`
	Agents demoAgentsCmd `cmd:"" help:"Run only the demo's agents, through a running gateway whose upstream is the scripted model."`
}

type demoCmd struct {
	Once           bool     `short:"1" help:"Exit after the demo instead of running on."`
	Fast           bool     `help:"Do not pause between requests."`
	Only           []string `enum:"honest,exact,tool,cycle,reworded" placeholder:"AGENT" help:"Show only this agent: honest, exact, tool, cycle or reworded. Repeatable."`
	gateway.Config `group:"gateway"`
	NATSListen     string `name:"nats-listen" group:"nats" default:"127.0.0.1:4222" placeholder:"ADDR" help:"Address of the embedded NATS server."`

	service.Process `group:"process"`
}

// Pauses of the demonstration, for the eye.
const (
	betweenTurns  = 250 * time.Millisecond
	betweenScenes = time.Second
)

// demoCheck is how long the demonstration's requests wait for a decision. It is longer than
// usual, so that the demonstration does the same on a busy machine.
const demoCheck = 2 * time.Second

// comparesWithin is the variable that says how long a request waits for the comparison of
// its text under the default policy. In a demonstration that is demoCheck, too.
const comparesWithin = "LOOP_EMBEDDING_SIDECAR_TIMEOUT"

// Run runs everything in memory, with a scripted model as the only upstream, and shows
// agents that loop and one that does not. It takes free ports where the usual ones are
// not.
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
		c.LogLevel = "error" // log lines would stand between those of the demonstration
	}
	defaults := system.DefaultConfig()
	up := upCmd{
		Process: c.Process, NATSListen: c.NATSListen, DataDir: natskit.InMemory, Config: c.Config,
		Notifier: defaults.Notifier, Embedworker: defaults.Embedworker,
	}
	if os.Getenv(comparesWithin) == "" {
		if err := os.Setenv(comparesWithin, demoCheck.String()); err != nil {
			return fmt.Errorf("set %s: %w", comparesWithin, err)
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

// demoPriced is the model that agents ask for. Its price is known, so that the page says what
// was saved; the scripted model answers for it.
const demoPriced = "gpt-4o"

// errDone ends a demonstration with --once.
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

// serveModel serves a scripted model until the context ends, and says at /healthz that it
// is there.
func serveModel(ctx context.Context, ln net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("/", scripted.Handler(func(scripted.Request) scripted.Reply { return scripted.Text("Let me look into that.") }))
	return service.ServeHTTP(ctx, &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}, ln, time.Second)
}

// demonstration sends the requests of the scenes through a gateway and prints the answers.
type demonstration struct {
	out  *printer
	url  string
	fast bool
	// only names the scenes that are shown; without any, all are.
	only []string
	// suffix distinguishes the sessions of demonstrations that follow each other; "" is for
	// the only one.
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

// pause waits, unless the demonstration is fast.
func (d *demonstration) pause(ctx context.Context, wait time.Duration) error {
	if d.fast {
		return ctx.Err()
	}
	return pause.For(ctx, wait)
}

// show sends one request and prints what became of it.
func (d *demonstration) show(ctx context.Context, s scene, i int, t turn) error {
	status, h, err := ask(ctx, d.url, "demo-"+s.session+d.suffix, t.messages)
	if err != nil {
		return err
	}
	d.sent++
	head := fmt.Sprintf("  %2d  ", i+1)
	says := terminal.Truncate(t.says, max(d.room()-len(head), 20))
	style, words := became(status, h)
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

// became says what became of a request.
func became(status int, h http.Header) (style terminal.Style, words string) {
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

// ask sends an agent's request and returns the head of the answer.
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
