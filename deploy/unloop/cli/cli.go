// Package cli is the command line of unloop: subcommands, their flags and their output.
// Other packages do the work.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/unloop/unloop/deploy/unloop/doctor"
	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

const description = "Unloop stands in front of LLM traffic and stops agents that go round in circles."

// cli lists the commands.
type cli struct {
	Up   upCmd        `cmd:"" group:"Run:" help:"Run everything in one process."`
	Exec execCmd      `cmd:"" group:"Run:" help:"Run an agent through Unloop, and report what was stopped."`
	Demo demoCommands `cmd:"" group:"Run:" help:"Show how Unloop stops looping agents, offline."`

	Scan       scanCmd       `cmd:"" group:"See:" help:"Find loops in recorded agent sessions, and what they cost. Needs no gateway. Flags: unloop scan find --help."`
	Status     statusCmd     `cmd:"" group:"See:" help:"Show what is running and what it stops."`
	Doctor     doctorCmd     `cmd:"" group:"See:" help:"Check that all parts are reachable and fast, and that loops are stopped."`
	Loops      loopsCmd      `cmd:"" group:"See:" help:"List, show and release open loops."`
	Events     eventsCmd     `cmd:"" group:"See:" help:"Follow loop events."`
	Endpoints  endpointsCmd  `cmd:"" group:"See:" help:"List notification endpoints, and enable disabled ones."`
	Deliveries deliveriesCmd `cmd:"" group:"See:" help:"List notifications and their delivery attempts; resend one, or send a test."`
	Audit      auditCmd      `cmd:"" group:"See:" help:"Print the audit log: releases, blocks, exemptions, silences."`
	KV         kvCmd         `cmd:"" group:"See:" name:"kv" help:"Print the records of a bucket as lines of JSON."`

	Block     beginCmd     `cmd:"" group:"Act:" help:"Refuse all requests of a session, caller, tenant or project at every gateway."`
	Unblock   endCmd       `cmd:"" group:"Act:" help:"End a block."`
	Exempt    beginCmd     `cmd:"" group:"Act:" help:"Forward all requests of a session, caller, tenant or project unchecked."`
	Unexempt  endCmd       `cmd:"" group:"Act:" help:"End an exemption."`
	Overrides overridesCmd `cmd:"" group:"Act:" help:"List blocks and exemptions."`
	Silences  silencesCmd  `cmd:"" group:"Act:" help:"Mute notifications about loops for a time."`

	Backup  backupCmd  `cmd:"" group:"Act:" help:"Back up Unloop's state in NATS to a file."`
	Restore restoreCmd `cmd:"" group:"Act:" help:"Restore a backup."`

	Policy policyCmd `cmd:"" group:"Configure:" help:"Check, push, show and roll back policy bundles."`
	Notify notifyCmd `cmd:"" group:"Configure:" help:"Check a file of notification endpoints and routes."`
	Replay replayCmd `cmd:"" group:"Configure:" help:"Evaluate recorded traffic offline: what would have been stopped, when, and what that would have saved."`
	Model  modelCmd  `cmd:"" group:"Configure:" help:"Install the embedding model and its runtime."`

	Gateway     gateway.Command     `cmd:"" group:"Run a part of a cluster:" help:"Run a gateway against a NATS cluster."`
	Detector    detector.Command    `cmd:"" group:"Run a part of a cluster:" help:"Run a detector against a NATS cluster."`
	Embedworker embedworker.Command `cmd:"" group:"Run a part of a cluster:" help:"Run an embedding worker against a NATS cluster."`
	Notifier    notifier.Command    `cmd:"" group:"Run a part of a cluster:" help:"Run a notifier against a NATS cluster."`
	NATS        natsCommands        `cmd:"" group:"Run a part of a cluster:" name:"nats" help:"Run the embedded NATS server alone, configure NATS servers, and create the streams."`

	Completion completionCmd `cmd:"" group:"Help:" help:"Print the completion script for bash, zsh or fish."`
	Version    versionCmd    `cmd:"" group:"Help:" help:"Print the version."`
	HelpOf     helpCmd       `cmd:"" group:"Help:" name:"help" help:"Print the help of a command."`

	CompleteWords completeCmd      `cmd:"" hidden:"" group:"Help:"`
	ShowVersion   kong.VersionFlag `name:"version" short:"V" env:"-" help:"Print the version."`
}

// Main runs the command line and returns the exit code: 0 for success, 1 for an error,
// 2 for wrong flags.
func Main(args []string) int {
	ctx, stop := service.Context()
	defer stop()
	return run(ctx, args, os.Environ(), os.Stdout, os.Stderr)
}

// newParser returns the parser of command lines. platform is the default platform of model pull.
func newParser(platform string, opts ...kong.Option) (*kong.Kong, error) {
	c := cli{
		Block: beginCmd{action: schemas.OverrideBlock}, Unblock: endCmd{action: schemas.OverrideBlock},
		Exempt: beginCmd{action: schemas.OverrideExempt}, Unexempt: endCmd{action: schemas.OverrideExempt},
	}
	return service.NewParser(&c, "unloop", description, append(opts,
		kong.Vars{"default_gateway": defaultGateway, "default_upstreams": strings.Join(doctor.Upstreams(), ","), "default_nats": defaultNATS, "default_admin": "http://" + usualAdmin, "platform": platform, "version": "unloop " + service.BuildInfo().String()})...)
}

// Model returns all commands with their arguments and flags, for the reference documentation.
func Model() (*kong.Application, error) {
	parser, err := newParser("OS/ARCH")
	if err != nil {
		return nil, err
	}
	return parser.Model, nil
}

func run(ctx context.Context, args, environ []string, out, errOut io.Writer) int {
	ctx = endsRefused(ctx)
	exited := -1
	parser, err := newParser(runtime.GOOS+"/"+runtime.GOARCH,
		kong.Writers(out, errOut), kong.Exit(func(code int) { exited = code }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(streams{out, errOut, terminal.Detect(out, func(name string) string { return variable(environ, name) })}, service.Log{Writer: errOut}))
	if err != nil {
		fmt.Fprintln(errOut, "unloop:", err)
		return 2
	}
	if len(args) == 0 {
		args = []string{"help"}
	}
	kctx, err := parser.Parse(args)
	if exited >= 0 { // --help or --version
		return exited
	}
	if err != nil {
		wrongFlags(errOut, err)
		return 2
	}
	for _, name := range service.UnknownEnv(parser, environ) {
		fmt.Fprintf(errOut, "unloop: warning: %s is set, but no flag has it\n", name)
	}
	for _, flag := range service.ShownSecrets(kctx) {
		fmt.Fprintf(errOut, "unloop: warning: others on this machine can read the secret of %s on the command line; use its variable or the file form\n", flag)
	}
	err = kctx.Run()
	if cause := context.Cause(ctx); errors.Is(cause, natskit.ErrRefused) {
		err = cause
	}
	return explainExit(err, errOut)
}

// explainExit prints an error and returns the exit code.
func explainExit(err error, errOut io.Writer) int {
	if err == nil || errors.Is(err, context.Canceled) {
		return 0
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	fmt.Fprintln(errOut, "unloop:", err)
	return 1
}
