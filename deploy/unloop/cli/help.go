package cli

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/unloop/unloop/schemas/kit/service"
)

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Command, and its subcommand."`
}

// Run prints the help of a command, or of all.
func (c *helpCmd) Run(parsed *kong.Context) error {
	node := parsed.Model.Node
	for _, name := range c.Command {
		if node = childOf(node, name); node == nil {
			return fmt.Errorf("no command is named %s; `unloop help` lists them all", strings.Join(c.Command, " "))
		}
	}
	// Parse prints the help as soon as it reads the flag; missing arguments are no error.
	_, _ = parsed.Parse(append(c.Command, "--help"))
	return nil
}

type versionCmd struct{ formatted }

// Run prints what was built.
func (c *versionCmd) Run(std streams) error {
	build := service.BuildInfo()
	if c.JSON {
		return std.json(build)
	}
	_, err := fmt.Fprintf(std.out, "unloop %s\n", build)
	return err
}

// hyphenated matches the error for a value that the parser took for a flag.
var hyphenated = regexp.MustCompile(`(--[a-z-]+): expected .* got "-([^"]+)"`)

// hyphenMend returns a remedy for a value that begins with a hyphen; "" for other errors.
func hyphenMend(text string) string {
	m := hyphenated.FindStringSubmatch(text)
	switch {
	case m == nil:
		return ""
	case new(span).UnmarshalText([]byte(m[2])) == nil:
		return fmt.Sprintf("; a duration is positive: write %s %s", m[1], m[2])
	default:
		return fmt.Sprintf("; write %s=-%s if the value begins with a hyphen", m[1], m[2])
	}
}

// wrongFlags prints the error in a command line, and where to find help.
func wrongFlags(w io.Writer, err error) {
	// The parser has no better name for a value of our own types.
	text := strings.Replace(err.Error(), "expected value value", "expected a value", 1)
	fmt.Fprintln(w, "unloop:", text+hyphenMend(text))
	command := "unloop"
	if failed, ok := errors.AsType[*kong.ParseError](err); ok && failed.Context.Selected() != nil {
		command = failed.Context.Selected().FullPath()
	}
	fmt.Fprintf(w, "Run \"%s --help\" for its commands and flags.\n", command)
}
