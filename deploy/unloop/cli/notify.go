package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/unloop/unloop/notifier"
)

type notifyCmd struct {
	Check  notifyCheckCmd  `cmd:"" help:"Check a --notify file and list every fault with its line."`
	Schema notifySchemaCmd `cmd:"" help:"Print the JSON Schema of --notify files."`
}

type notifyCheckCmd struct {
	Files     []string       `arg:"" name:"file" type:"existingfile" help:"Files, YAML or JSON. Secrets that they refer to must exist."`
	AllowCIDR []netip.Prefix `name:"allow-cidr" placeholder:"CIDR" help:"Networks that the notifier is given with --allow-cidr."`
}

// Run checks files and prints every fault.
func (c *notifyCheckCmd) Run(std streams) error {
	out := std.printer()
	faulty := 0
	for _, file := range c.Files {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		endpoints, err := notifier.Check(data, c.AllowCIDR)
		printComplaints(out, complaintsOf(file, notifier.Faults(err), false))
		if err != nil {
			faulty++
			continue
		}
		out.printf("%s: valid; %s\n", file, plural(len(endpoints), "endpoint"))
		for _, e := range endpoints {
			out.printf("  %s (%s), %s\n", e.Name, e.Kind, plural(e.Routes, "route"))
		}
	}
	if faulty > 0 {
		return errors.Join(out.err, fmt.Errorf("%d of %d files are %w", faulty, len(c.Files), errFaulty))
	}
	return out.err
}

type notifySchemaCmd struct{}

// Run prints the schema.
func (*notifySchemaCmd) Run(std streams) error {
	_, err := std.out.Write(notifier.Schema)
	return err
}
