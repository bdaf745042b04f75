package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/unloop/unloop/deploy/scripted"
	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

type demoCmd struct {
	service.Process
	NATSListen string `name:"nats-listen" default:"127.0.0.1:4222" placeholder:"ADDR" help:"Address of the embedded NATS server."`
	gateway.Config
	Once bool `help:"Stop after the demonstration instead of running on."`
}

// loopTries is the number of requests of the looping agent.
const loopTries = 9

// Run runs everything in memory, with a scripted model as the only upstream, and
// shows an agent that loops and one that does not.
func (c *demoCmd) Run(ctx context.Context, io streams) error {
	model, err := startModel(ctx)
	if err != nil {
		return err
	}
	c.Upstream = map[string]string{"openai": model, "anthropic": model, "gemini": model, "default": model}
	defaults := system.DefaultConfig()
	cfg, err := upCmd{
		Process: c.Process, NATSListen: c.NATSListen, DataDir: natskit.InMemory, Config: c.Config,
		Detector: defaults.Detector, Notifier: defaults.Notifier, Embedworker: defaults.Embedworker,
	}.system()
	if err != nil {
		return err
	}
	s, err := system.New(cfg, c.Logger(io.err))
	if err != nil {
		return err
	}
	err = runSystem(ctx, s, func(ctx context.Context) error {
		err := demonstrate(ctx, io.printer(), s.URL())
		if err == nil && c.Once {
			return errDone
		}
		return err
	})
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

// errDone ends a demonstration with --once.
var errDone = errors.New("demonstration done")

// startModel serves a scripted model on a free port until the context ends.
func startModel(ctx context.Context) (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for the scripted model: %w", err)
	}
	server := &http.Server{
		Handler:           scripted.Handler(func(scripted.Request) scripted.Reply { return scripted.Text("Let me look into that.") }),
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() { _ = service.ServeHTTP(ctx, server, ln, time.Second) }() // its end is the process's
	return "http://" + ln.Addr().String(), nil
}

// demonstrate sends the requests of two agents through the gateway and prints the
// answers.
func demonstrate(ctx context.Context, out *printer, url string) error {
	out.printf("Unloop is ready at %s, with a scripted model behind it.\n\n", url)
	out.printf("An honest agent asks five different things:\n")
	for _, q := range []string{"Read main.go", "Run the tests", "Fix the failing test", "Run the tests again", "Write the summary"} {
		if err := ask(ctx, out, url, "honest", q); err != nil {
			return err
		}
	}
	out.printf("\nA looping agent asks one thing again and again:\n")
	for range loopTries {
		if err := ask(ctx, out, url, "looping", "That was not valid JSON. Try again."); err != nil {
			return err
		}
	}
	out.printf("\nSee it from outside with `unloop loops` and `unloop events`, or send your own agent to %s/v1.\n", url)
	return out.err
}

// ask sends one prompt and prints the status of the answer.
func ask(ctx context.Context, out *printer, url, agent, prompt string) error {
	body := fmt.Sprintf(`{"model":"scripted","messages":[{"role":"user","content":%q}]}`, prompt)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer demo-"+agent)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	var answer struct {
		Error struct{ Code, Message string }
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	out.printf("  %-8s %-36q → %d", agent, prompt, res.StatusCode)
	if answer.Error.Code != "" {
		out.printf(" %s, seen %s times, retry after %s s", answer.Error.Code, res.Header.Get("X-Loop-Count"), res.Header.Get("Retry-After"))
	}
	out.printf("\n")
	return out.err
}
