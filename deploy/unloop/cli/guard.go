package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/doctor"
	"github.com/unloop/unloop/deploy/unloop/meter"
	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/kit/access"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
	"github.com/unloop/unloop/schemas/kit/tracing"
)

// defaultGateway is the default URL of the gateway of `unloop up`.
const defaultGateway = "http://127.0.0.1:8080"

const (
	// pingTimeout bounds the search for a running gateway.
	pingTimeout = 2 * time.Second
	// ownGrace is the time that requests get to finish after the agent has ended.
	ownGrace = time.Second
)

// baseURL is an environment variable with a provider's address, the name of the upstream,
// and the path that SDKs expect in the address.
type baseURL struct{ variable, upstream, path string }

// baseURLs returns the variables of all upstreams.
func baseURLs() (all []baseURL) {
	for _, u := range gateway.Upstreams() {
		for _, v := range u.Variables {
			all = append(all, baseURL{v.Name, u.Name, v.Path})
		}
	}
	return all
}

// guard is the gateway in front of a command.
type guard struct {
	// url is the address of the gateway; the command gets the address of the meter.
	url   string
	meter *meter.Meter
	// own says that exec started the gateway for this command alone.
	own bool
	// tally collects the stopped loops; nil with an error if they cannot be read.
	tally    *tally
	tallyErr error
	// stop ends a gateway that exec started.
	stop func() error
}

// guard finds a running gateway or starts one.
func (c *execCmd) guard(ctx context.Context, environ []string, std streams) (*guard, error) {
	if c.Gateway != "" {
		base := strings.TrimSuffix(strings.TrimRight(c.Gateway, "/"), "/v1")
		if _, err := ping(ctx, base, ""); err != nil {
			return nil, fmt.Errorf("use --gateway %s: %w", c.Gateway, err)
		}
		for name := range upstreamsOf(environ, base) {
			fmt.Fprintf(std.err, "unloop: requests for %s go where the gateway at %s sends them, not where the environment says\n", name, base)
		}
		return c.running(ctx, base), nil
	}
	running := ""
	if !c.Fresh && isOurs(ctx, defaultGateway, std) {
		running = defaultGateway
	}
	upstreams := upstreamsOf(environ, running)
	if running != "" && len(upstreams) == 0 && len(c.Upstream) == 0 && c.Policies == "" {
		return c.running(ctx, running), nil
	}
	maps.Copy(upstreams, c.Upstream)
	return c.own(ctx, upstreams, std)
}

// running returns a gateway that others may use, too.
func (c *execCmd) running(ctx context.Context, base string) *guard {
	g := &guard{url: base, stop: func() error { return nil }}
	g.tally, g.tallyErr = follow(ctx, func() (jetstream.JetStream, error) { return c.open(unheard) })
	return g
}

// own starts a gateway and the services behind it in this process.
func (c *execCmd) own(ctx context.Context, upstreams map[string]string, std streams) (*guard, error) {
	dir, err := dataDir(cmp.Or(c.DataDir, natskit.InMemory))
	if err != nil {
		return nil, err
	}
	cfg := system.DefaultConfig() // the embedded server does not listen: agents do not need it
	cfg.Embedded.DataDir = dir
	cfg.Gateway.Upstream, cfg.Gateway.Policies = upstreams, c.Policies
	cfg.Gateway.ShutdownGrace, cfg.Gateway.CheckTimeout, cfg.Gateway.Reject = ownGrace, c.CheckTimeout, c.Reject
	log := service.Process{LogFormat: c.LogFormat, LogLevel: c.LogLevel}.Logger(std.err)
	cfg.Traces = tracing.FromEnv(ctx, "unloop", service.Version(), log)
	s, err := system.New(cfg, log)
	if err != nil {
		return nil, err
	}
	g := &guard{url: s.URL(), own: true, stop: serve(ctx, s)}
	if err := s.Wait(ctx); err != nil {
		return nil, errors.Join(err, g.stop())
	}
	g.tally, g.tallyErr = follow(ctx, func() (jetstream.JetStream, error) {
		nc, err := s.Connect()
		if err != nil {
			return nil, err
		}
		return jetstream.New(nc)
	})
	return g, nil
}

// serve runs a system until stop is called.
func serve(ctx context.Context, s *system.System) (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

// measure starts the meter, which counts the command's requests.
func (g *guard) measure(ctx context.Context) (err error) {
	g.meter, err = meter.Start(ctx, g.url)
	return err
}

// environ returns an environment that leads agents to the gateway at an address.
func environ(environ []string, at string) []string {
	out := slices.Clone(environ)
	proxied := false
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch strings.ToUpper(name) {
		case "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY":
			proxied = proxied || value != ""
		}
	}
	if u, err := url.Parse(at); err == nil && proxied {
		// Most SDKs would use the proxy for loopback addresses too.
		for _, name := range []string{"NO_PROXY", "no_proxy"} {
			out = setVar(out, name, strings.TrimPrefix(variable(environ, name)+","+u.Hostname(), ","))
		}
	}
	for _, b := range baseURLs() {
		out = setVar(out, b.variable, at+b.path)
	}
	return out
}

// setVar returns an environment with one variable replaced.
func setVar(environ []string, name, value string) []string {
	others := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
	return append(others, name+"="+value)
}

// variable returns the value of a variable, "" if it is not set.
func variable(environ []string, name string) string {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// upstreamsOf returns the upstreams in the environment, without those that are the running
// gateway itself.
func upstreamsOf(environ []string, running string) map[string]string {
	upstreams := map[string]string{}
	for _, b := range baseURLs() {
		if addr := variable(environ, b.variable); addr != "" && !sameServer(addr, running) {
			upstreams[b.upstream] = addr
		}
	}
	return upstreams
}

func sameServer(a, b string) bool {
	ua, errA := url.Parse(a)
	ub, errB := url.Parse(b)
	if errA != nil || errB != nil || ub.Host == "" {
		return false
	}
	return strings.ReplaceAll(ua.Host, "localhost", "127.0.0.1") == strings.ReplaceAll(ub.Host, "localhost", "127.0.0.1")
}

// isOurs reports whether the gateway at base proves that it belongs to this user. Otherwise
// any program that takes the port would get the agent's API key.
func isOurs(ctx context.Context, base string, std streams) bool {
	challenge := access.NewChallenge()
	proof, err := ping(ctx, base, challenge)
	if err != nil {
		return false
	}
	if !access.Proves(proof, natskit.ProofKey(), challenge, strings.TrimPrefix(base, "http://")) {
		fmt.Fprintf(std.err, "unloop: the program listening at %s cannot prove that it is your gateway; starting one for this command (or name it with --gateway %s)\n", base, base)
		return false
	}
	return true
}

// ping returns the proof of the gateway at base for a challenge, which may be empty.
func ping(ctx context.Context, base, challenge string) (proof string, err error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	pong, err := doctor.Ping(ctx, base, challenge)
	return pong.Proof, err
}

// close reports the outcome of the command's requests, and stops a gateway that exec started.
func (g *guard) close(ctx context.Context, command []string, std streams) {
	report(ctx, g, command, &printer{w: std.err})
	if err := errors.Join(g.meter.Close(), g.stop()); err != nil {
		fmt.Fprintln(std.err, "unloop:", err)
	}
}
