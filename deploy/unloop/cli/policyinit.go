package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/unloop/unloop/schemas/policy"
)

type policyInitCmd struct {
	Name string `arg:"" optional:"" default:"quiet" help:"Which bundle: quiet only observes; teams has policies for three teams; budgets limits requests and tokens of each caller and project."`
}

// Run prints an example bundle.
func (c *policyInitCmd) Run(std streams) error {
	text, known := policy.Example(c.Name)
	if !known {
		return fmt.Errorf("no example bundle is named %q; there are %s", c.Name, strings.Join(policy.Examples, ", "))
	}
	_, err := std.out.Write(text)
	return err
}

type policyDefaultCmd struct{}

// Run prints the default policy, with the changes that LOOP_ variables make.
func (*policyDefaultCmd) Run(std streams) error {
	bundle, err := policy.Default(os.Getenv)
	if err != nil {
		return err
	}
	text, err := bundle.Commented()
	if err != nil {
		return err
	}
	_, err = std.out.Write(text)
	return err
}

type policySchemaCmd struct{}

// Run prints the JSON Schema of bundles.
func (*policySchemaCmd) Run(std streams) error {
	_, err := std.out.Write(policy.Schema)
	return err
}
