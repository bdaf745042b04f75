package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/unloop/unloop/schemas/kit/service"
)

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Command, with its subcommand."`
}

// Run prints the help of a command, or of all.
func (c *helpCmd) Run(parsed *kong.Context) error {
	node := parsed.Model.Node
	for _, name := range c.Command {
		if node = childOf(node, name); node == nil {
			return fmt.Errorf("no command is named %s; `unloop help` lists them all", strings.Join(c.Command, " "))
		}
	}
	// The help is printed as the flag is read; what is missing of the command is no error.
	_, _ = parsed.Parse(append(c.Command, "--help"))
	return nil
}

type versionCmd struct{ formatted }

// Run prints what was built.
func (c *versionCmd) Run(io streams) error {
	build := service.BuildInfo()
	if c.JSON {
		return io.json(build)
	}
	_, err := fmt.Fprintf(io.out, "unloop %s\n", build)
	return err
}

// wrongFlags prints why a command line can't be used, and where its help is.
func wrongFlags(w io.Writer, err error) {
	// The parser calls a value of a type that it does not know a value.
	fmt.Fprintln(w, "unloop:", strings.Replace(err.Error(), "expected value value", "expected a value", 1))
	command := "unloop"
	if failed, ok := errors.AsType[*kong.ParseError](err); ok && failed.Context.Selected() != nil {
		command = failed.Context.Selected().FullPath()
	}
	fmt.Fprintf(w, "Run \"%s --help\" for its commands and flags.\n", command)
}
