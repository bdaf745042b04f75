package cli

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/unloop/unloop/schemas/kit/pause"
	"github.com/unloop/unloop/schemas/kit/service"
)

type demoModelCmd struct {
	Listen   string `short:"l" default:"127.0.0.1:8090" placeholder:"ADDR" help:"Address of the scripted model."`
	Insecure bool   `help:"Allow an address other than loopback."`
}

// Run serves the scripted model until the context ends.
func (c *demoModelCmd) Run(ctx context.Context, std streams) error {
	if err := (service.Process{Insecure: c.Insecure}).CheckLoopback("--listen", c.Listen); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen at --listen %s: %w", c.Listen, err)
	}
	fmt.Fprintf(std.out, "The scripted model is at http://%s. For a gateway: --upstream openai=http://%[1]s\n", ln.Addr())
	return serveModel(ctx, ln)
}

type demoAgentsCmd struct {
	Gateway string        `short:"g" default:"${default_gateway}" placeholder:"URL" help:"Gateway to use."`
	Every   time.Duration `env:"-" placeholder:"DURATION" help:"Repeat at this interval with new sessions until Ctrl-C. Default: once."`
	Fast    bool          `env:"-" help:"Do not pause between requests."`
	Only    []string      `env:"-" enum:"honest,exact,tool,cycle,reworded" placeholder:"AGENT" help:"Show only this agent: honest, exact, tool, cycle or reworded. Repeatable."`
}

// Run sends the agents' requests, and prints the outcomes.
func (c *demoAgentsCmd) Run(ctx context.Context, std streams) error {
	url := httpAddress(c.Gateway)
	if _, err := ping(ctx, url, ""); err != nil {
		return fmt.Errorf("use --gateway %s: %w", c.Gateway, err)
	}
	for {
		d := demonstration{out: std.printer(), url: url, fast: c.Fast, only: c.Only}
		if c.Every > 0 {
			d.suffix = "-" + strconv.FormatInt(time.Now().Unix(), 36)
		}
		if err := d.run(ctx); err != nil || c.Every <= 0 {
			return err
		}
		if err := pause.For(ctx, c.Every); err != nil {
			return err
		}
	}
}
