package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/unloop/unloop/schemas/kit/access"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/seal"
	"github.com/unloop/unloop/schemas/kit/tracing"
)

// EnvPrefix is the prefix of the flags' environment variables.
const EnvPrefix = "UNLOOP"

// Process has the flags of every process.
type Process struct {
	Admin     string   `default:"${admin}" placeholder:"ADDR" help:"Address for /healthz, /readyz and /metrics."`
	AdminAuth []string `placeholder:"key:env:VAR" help:"Keys for the admin port, read from an environment variable or a file (key:file:PATH). /healthz and the status code of /readyz need none. Repeatable."`
	PublicURL string   `name:"public-url" placeholder:"URL" help:"Address at which people open the dashboard, to which refusals and messages link, such as https://unloop.example.com. Default: the admin port, where it serves the dashboard to this machine."`
	Insecure  bool     `help:"Allow addresses other than loopback without authentication."`
	access.Allowed
	LogFormat string `default:"text" enum:"text,json" help:"Format of the log: text or json."`
	LogLevel  string `default:"info" enum:"debug,info,warn,error" help:"Lowest level of log lines: debug, info, warn or error."`
}

// Cluster has the flags of a process that uses external NATS servers.
type Cluster struct {
	NATS string `name:"nats" default:"nats://127.0.0.1:4222" placeholder:"URL" help:"NATS servers, separated by commas."`
	natskit.Settings
	Replicas int `default:"1" help:"Replicas of newly created streams."`
	Sealed
}

// Sealed has the flag for operators' public keys.
type Sealed struct {
	SealKey []string `placeholder:"KEY" help:"Public key that must have signed operators' records (policies, blocks, exemptions, the key for caller hashes); other records are ignored. Repeatable. Default: accept all records."`
}

// Trust returns the trust in the keys.
func (s Sealed) Trust() (seal.Trust, error) {
	trust, err := seal.NewTrust(s.SealKey...)
	if err != nil {
		return trust, fmt.Errorf("--seal-key: %w", err)
	}
	return trust, nil
}

// Logger returns the log for the flags.
func (p Process) Logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(p.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	opts := &slog.HandlerOptions{Level: level}
	if p.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// CheckLoopback returns an error for an address that other machines can reach, unless
// --insecure is set. flag is the address's flag.
func (p Process) CheckLoopback(flag, addr string) error {
	return p.checkReach(flag, addr, "allow it with --insecure")
}

// CheckGuarded is CheckLoopback for an address that is safe if its clients need a key, by the
// flag with; guarded reports whether they do.
func (p Process) CheckGuarded(flag, addr, with string, guarded bool) error {
	if guarded {
		return nil
	}
	return p.checkReach(flag, addr, "ask its clients for a key with "+with+", or allow it with --insecure")
}

// LocalAdmin reports whether only this machine can reach the admin port.
func (p Process) LocalAdmin() bool {
	host, _, err := net.SplitHostPort(p.Admin)
	return err == nil && access.Loopback(host)
}

// CheckAdmin is CheckGuarded for the admin port. It also checks --public-url.
func (p Process) CheckAdmin() error {
	err := p.CheckGuarded("--admin", p.Admin, "--admin-auth", len(p.AdminAuth) > 0)
	if u, parseErr := url.Parse(p.PublicURL); p.PublicURL != "" && (parseErr != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		err = errors.Join(err, fmt.Errorf("--public-url is %q; set it to the address of the dashboard, such as https://unloop.example.com", p.PublicURL))
	}
	return err
}

func (p Process) checkReach(flag, addr, otherwise string) error {
	if p.Insecure {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s is %q; set it to HOST:PORT, such as 127.0.0.1:%s", flag, addr, portIn(addr))
	}
	if access.Loopback(host) {
		return nil
	}
	return fmt.Errorf("%s %s can be reached from other machines; use a loopback address such as 127.0.0.1, or %s", flag, addr, otherwise)
}

// portIn returns the port in an address without a host; a default if there is none.
func portIn(addr string) string {
	port := strings.Trim(addr, ":")
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "8080"
	}
	return port
}

// NewParser returns the parser of the commands in cli, whose flags have environment
// variables unless they are tagged env:"-", as flags that only make sense for one run are.
func NewParser(cli any, name, description string, opts ...kong.Option) (*kong.Kong, error) {
	all := append([]kong.Option{
		kong.Name(name),
		kong.Description(description),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, FlagsLast: true}),
		kong.ValueFormatter(describe),
		kong.ExplicitGroups(groups),
		kong.DefaultEnvars(EnvPrefix),
		kong.Vars{"admin": "127.0.0.1:8081"}, // a command that runs beside others has another one
	}, opts...)
	return kong.New(cli, all...)
}

// groups are the groups of flags in help texts.
var groups = []kong.Group{
	{Key: "gateway", Title: "Gateway:"},
	{Key: "embedworker", Title: "Embedding worker:"},
	{Key: "notifier", Title: "Notifier:"},
	{Key: "nats", Title: "NATS:"},
	{Key: "process", Title: "Process:"},
}

// describe returns the help of a flag or an argument, with its default and environment
// variables.
func describe(v *kong.Value) string {
	help := v.Help
	shown := v.Tag.PlaceHolder == "" // in the flag's own column
	if v.Flag != nil && v.HasDefault && v.Default != "" && !v.IsBool() && !shown && !strings.Contains(strings.ToLower(help), "default") {
		help = strings.TrimSuffix(help, ".") + ". Default: " + v.Default + "."
	}
	if len(v.Tag.Envs) > 0 {
		help = strings.TrimSpace(help + " ($" + strings.Join(v.Tag.Envs, ", $") + ")")
	}
	return help
}

// ShownSecrets returns the secret flags on the command line, which every user of the machine
// can read.
func ShownSecrets(parsed *kong.Context) []string {
	var shown []string
	for _, step := range parsed.Path {
		if step.Flag != nil && step.Flag.Tag.Has("secret") {
			shown = append(shown, "--"+step.Flag.Name)
		}
	}
	return shown
}

// testPrefix is the prefix of variables for tests.
const testPrefix = EnvPrefix + "_TEST_"

// UnknownEnv returns the variables UNLOOP_… that belong to no flag and are not for tests.
// They only deserve a warning: orchestrators set such names themselves.
func UnknownEnv(k *kong.Kong, environ []string) []string {
	known := map[string]bool{}
	_ = kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			for _, env := range flag.Envs {
				known[env] = true
			}
		}
		return next(nil)
	})
	var unknown []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, EnvPrefix+"_") && !strings.HasPrefix(name, testPrefix) && !known[name] {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// Context returns a context that ends at the first interrupt or termination signal. A
// second signal kills the process.
func Context() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Program runs a simple program until it ends or a signal comes, and returns the exit code.
func Program(name string, run func(ctx context.Context, args []string, out io.Writer) error) int {
	ctx, stop := Context()
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		return 1
	}
	return 0
}

// Log is the destination of a process's log.
type Log struct{ io.Writer }

// Member has the flags of a process that is one service of a cluster.
type Member struct {
	Process `group:"process"`
	Cluster `group:"nats"`
}

// Serve runs the service that build returns until the context ends.
func (m Member) Serve(ctx context.Context, name string, to Log, build func(Deps) (Service, error)) error {
	return RunOne(ctx, name, m.Process, m.Cluster, m.Logger(to).With("service", name), build)
}

// Command is a service as a command. Kong calls Run with a context and a Log.
type Command interface {
	Logger(io.Writer) *slog.Logger
	Run(context.Context, Log) error
}

// Main runs a service as a process of its own, and returns the exit code.
func Main(name string, command Command) int {
	ctx, stop := Context()
	defer stop()
	parser, err := NewParser(command, name, "", kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(Log{os.Stderr}))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	parsed, err := parser.Parse(os.Args[1:])
	parser.FatalIfErrorf(err)
	log := command.Logger(os.Stderr).With("service", name)
	for _, flag := range ShownSecrets(parsed) {
		log.Warn("secret on the command line: others on this machine can read it; use the flag's variable or the file form", "flag", flag)
	}
	for _, env := range UnknownEnv(parser, os.Environ()) {
		log.Warn("environment variable is set, but no flag has it", "variable", env)
	}
	if err := parsed.Run(); err != nil {
		log.Error("stopped", "error", err)
		return 1
	}
	return 0
}

// RunOne runs one service with its NATS connection and admin port until the context ends.
func RunOne(ctx context.Context, name string, process Process, cluster Cluster, log *slog.Logger, build func(Deps) (Service, error)) error {
	guard, err := AdminGuard(process.AdminAuth)
	trust, also := cluster.Trust()
	if err := errors.Join(process.CheckAdmin(), err, also); err != nil {
		return err
	}
	nc, err := cluster.Connect(cluster.NATS, name, log)
	if err != nil {
		return err
	}
	defer nc.Close()
	reg := NewRegistry()
	layout := natskit.Layout{Replicas: cluster.Replicas}
	traces := tracing.FromEnv(ctx, "unloop-"+name, Version(), log)
	defer traces.Close()
	svc, err := build(Deps{Log: log, Metrics: reg, NATS: nc, Layout: layout, Trust: trust, Traces: traces.Tracer(name)})
	if err != nil {
		return err
	}
	named := Named{Name: name, Service: svc}
	admin, err := NewAdmin(process.Admin, process.Allowed, reg, named)
	if err != nil {
		return err
	}
	admin.Require(guard)
	log.Info("started", "admin", admin.Addr(), "nats", connectedTo(nc))
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	go func() {
		if err := nc.CheckState(ctx); err != nil {
			refuse(err)
		}
	}()
	Attach(ctx, name, svc, reg, nc, layout)
	err = runBehind(ctx, named, admin)
	if cause := context.Cause(ctx); errors.Is(cause, natskit.ErrState) {
		return cause
	}
	return err
}

// runBehind runs a service until the context ends. The admin port ends after the service,
// so that it can report the draining.
func runBehind(ctx context.Context, svc Named, admin *Admin) error {
	behind, stop := context.WithCancel(context.WithoutCancel(ctx))
	failed, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	ended := make(chan error, 1)
	go func() {
		err := RunAll(behind, Named{Name: "admin", Service: admin})
		if err != nil {
			fail(err)
		}
		ended <- err
	}()
	err := RunAll(failed, svc)
	stop()
	return errors.Join(err, <-ended)
}

// connectedTo returns the server's address for the log; the URL may contain a token.
func connectedTo(nc *natskit.Conn) string {
	if nc.Up() {
		return nc.NATS().ConnectedAddr()
	}
	return "not connected yet"
}
