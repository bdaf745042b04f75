package cli

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/doctor"
	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

type doctorCmd struct {
	client
	formatted
	Gateway   string            `short:"g" default:"${default_gateway}" placeholder:"URL" help:"Gateway to examine."`
	Admin     string            `default:"${default_admin}" placeholder:"URL" env:"UNLOOP_DOCTOR_ADMIN" help:"Admin port to examine."`
	Key       string            `secret:"" placeholder:"KEY" help:"Unloop key for the gateway, if it requires one."`
	AdminKey  string            `secret:"" placeholder:"KEY" help:"Unloop key for the admin port, if it requires one."`
	Tenant    string            `env:"-" placeholder:"NAME" help:"Tenant of the test loops."`
	Project   string            `env:"-" placeholder:"NAME" help:"Project of the test loops."`
	Header    map[string]string `env:"-" placeholder:"NAME=VALUE" help:"Header of the test loops. Repeatable."`
	Upstreams []string          `default:"${default_upstreams}" env:"UNLOOP_DOCTOR_UPSTREAMS" placeholder:"NAME" help:"Upstreams to probe through the gateway, without a provider key; or none."`
}

// Help lists the checks.
func (c *doctorCmd) Help() string {
	return "Examines NATS, its streams and their replicas, clocks, the disk, all parts, the embedder, ports, the policies in force, upstreams, the latency of a check, " +
		"and whether loops are stopped, by two test loops that raise no incident and notify nobody. " +
		"The exit code is 1 if there is a fault, and 0 with only warnings."
}

// diagnosis is the result as JSON.
type diagnosis struct {
	OK       bool             `json:"ok"`
	Findings []doctor.Finding `json:"findings"`
}

// Run examines the running system.
func (c *doctorCmd) Run(ctx context.Context, std streams) error {
	header := http.Header{}
	for name, value := range c.Header {
		header.Set(name, value)
	}
	for name, value := range map[string]string{"X-Tenant-ID": c.Tenant, "X-Project-ID": c.Project} {
		if value != "" {
			header.Set(name, value)
		}
	}
	cfg := doctor.Config{
		Header:  header,
		Gateway: httpAddress(c.Gateway), Admin: httpAddress(c.Admin), Key: c.Key, AdminKey: c.AdminKey, DataDir: c.localState(),
		Connect: func() (jetstream.JetStream, error) {
			return c.dial("unloop-doctor", func(err error) { fmt.Fprintln(std.err, "unloop:", err) })
		},
		Upstreams: slices.DeleteFunc(c.Upstreams, func(name string) bool { return name == "none" }),
	}
	result, out := diagnosis{OK: true, Findings: []doctor.Finding{}}, std.printer()
	for f := range doctor.Examine(ctx, cfg) {
		result.OK = result.OK && f.State != doctor.Fault
		result.Findings = append(result.Findings, f)
		if !c.JSON {
			printFinding(out, f)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.JSON {
		out.err = std.json(result)
	} else {
		conclude(out, result)
	}
	if out.err == nil && !result.OK {
		return exitCode(1)
	}
	return out.err
}

// httpAddress returns an address as a URL without /v1.
func httpAddress(addr string) string {
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	return strings.TrimSuffix(strings.TrimRight(addr, "/"), "/v1")
}

// localState returns the data folder of a NATS server that this user runs; "" if unknown.
func (c *doctorCmd) localState() string {
	dirs := dataDirs()
	if dir, err := natskit.StateDir(); err == nil {
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		if natskit.Serves(dir) {
			return dir
		}
	}
	return ""
}

func printFinding(out *printer, f doctor.Finding) {
	style := map[doctor.State]terminal.Style{doctor.OK: terminal.Green, doctor.Warning: terminal.Yellow, doctor.Fault: terminal.Red}[f.State]
	out.printf("%s  %-18s  %s\n", out.screen.Paint(style, fmt.Sprintf("%-7s", f.State)), f.Check, terminal.Clean(f.Detail))
	if f.Mend != "" {
		out.printf("%29s→ %s\n", "", terminal.Clean(f.Mend))
	}
}

func conclude(out *printer, result diagnosis) {
	count := map[doctor.State]int{}
	for _, f := range result.Findings {
		count[f.State]++
	}
	switch {
	case !result.OK:
		out.printf("\n%s and %s.\n", plural(count[doctor.Fault], "fault"), plural(count[doctor.Warning], "warning"))
	case count[doctor.Warning] > 0:
		out.printf("\nNo fault, %s.\n", plural(count[doctor.Warning], "warning"))
	default:
		out.printf("\nAll is well.\n")
	}
}
