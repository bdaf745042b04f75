// Package cli is the command line of unloop: flags, subcommands and their output.
// The packages that the subcommands call do the work.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"

	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/service"
)

const description = "Unloop stands in front of LLM traffic and stops agents that go round in circles."

// cli lists the commands.
type cli struct {
	Up          upCmd          `cmd:"" help:"Run everything in one process."`
	Demo        demoCmd        `cmd:"" help:"Run everything with a scripted model and a looping agent, offline."`
	Exec        execCmd        `cmd:"" help:"Run an agent through Unloop, and report at the end what was stopped."`
	Gateway     gatewayCmd     `cmd:"" help:"Run a gateway against a NATS cluster."`
	Detector    detectorCmd    `cmd:"" help:"Run a detector against a NATS cluster."`
	Embedworker embedworkerCmd `cmd:"" help:"Run an embedding worker against a NATS cluster."`
	Notifier    notifierCmd    `cmd:"" help:"Run a notifier against a NATS cluster."`
	NATS        natsCommands   `cmd:"" name:"nats" help:"Run the embedded NATS server alone, or write a context for the nats CLI."`
	Events      eventsCmd      `cmd:"" help:"Follow the events of loops."`
	Loops       loopsCmd       `cmd:"" help:"List, show and release open loops."`
	Replay      replayCmd      `cmd:"" help:"Evaluate recorded traffic offline: what would have been stopped, when, and what it would have saved."`
	Model       modelCmd       `cmd:"" help:"Install the embedding model and its runtime."`
	Policy      policyCmd      `cmd:"" help:"Check, push, show and roll back policy bundles."`
	Block       beginCmd       `cmd:"" help:"Refuse all requests of a session, caller, tenant or project, at once and everywhere."`
	Unblock     endCmd         `cmd:"" help:"End a block."`
	Exempt      beginCmd       `cmd:"" help:"Forward all requests of a session, caller, tenant or project without a check."`
	Unexempt    endCmd         `cmd:"" help:"End an exemption."`
	Overrides   overridesCmd   `cmd:"" help:"List blocks and exemptions."`
}

// Main runs the command line and returns the exit code: 0 for success, 1 for an error,
// 2 for wrong flags.
func Main(args []string) int {
	ctx, stop := service.Context()
	defer stop()
	return run(ctx, args, os.Environ(), os.Stdout, os.Stderr)
}

func run(ctx context.Context, args, environ []string, out, errOut io.Writer) int {
	c := cli{
		Block: beginCmd{action: schemas.OverrideBlock}, Unblock: endCmd{action: schemas.OverrideBlock},
		Exempt: beginCmd{action: schemas.OverrideExempt}, Unexempt: endCmd{action: schemas.OverrideExempt},
	}
	exited := -1
	parser, err := service.NewParser(&c, "unloop", description,
		kong.Writers(out, errOut), kong.Exit(func(code int) { exited = code }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(streams{out, errOut, terminal.Of(out, environ)}),
		kong.Vars{"default_gateway": defaultGateway})
	if err != nil {
		fmt.Fprintln(errOut, "unloop:", err)
		return 2
	}
	kctx, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		fmt.Fprintln(errOut, "unloop:", err)
		return 2
	}
	for _, name := range service.UnknownEnv(parser, environ) {
		fmt.Fprintf(errOut, "unloop: warning: %s is set, but no flag has it\n", name)
	}
	for _, flag := range service.ShownSecrets(kctx) {
		fmt.Fprintf(errOut, "unloop: warning: others on this machine can read the secret of %s on the command line; use its variable or the file form\n", flag)
	}
	return explainExit(kctx.Run(), errOut)
}

// explainExit prints an error and returns the exit code.
func explainExit(err error, errOut io.Writer) int {
	var code exitCode
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return 0
	case errors.As(err, &code):
		return int(code)
	default:
		fmt.Fprintln(errOut, "unloop:", err)
		return 1
	}
}
