package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/gateway"
)

type policyExplainCmd struct {
	client
	formatted
	File     string        `arg:"" name:"request.json" help:"Request with its headers, in the format of POST /unloop/v1/check; - reads standard input."`
	Policies string        `type:"existingfile" placeholder:"FILE" help:"Use this bundle instead of the running system's."`
	Timeout  time.Duration `env:"-" default:"2s" help:"How long to wait for the detectors."`
	Offline  bool          `env:"-" help:"Explain by the bundle alone, without the running system."`
}

// Run explains a request, by the bundle alone if no system is running.
func (c *policyExplainCmd) Run(ctx context.Context, std streams) error {
	in, err := open(c.File)
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	defer func() { _ = in.Close() }() // it was only read
	request, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	cfg := gateway.DefaultConfig()
	cfg.Policies, cfg.CheckTimeout = c.Policies, c.Timeout
	var js jetstream.JetStream
	if !c.Offline {
		if js, err = c.connect(ctx); err != nil {
			fmt.Fprintln(std.err, "No system is running, so counts and remaining limits are unknown. ("+err.Error()+")")
		} else {
			defer js.Conn().Close()
		}
	}
	trust, err := c.trust()
	if err != nil {
		return err
	}
	e, err := gateway.Explain(ctx, cfg, js, trust, request)
	if err != nil {
		return err
	}
	if js != nil && c.Policies == "" {
		for _, g := range followFiles(ctx, js) {
			if g.Bundle.Version != e.Bundle {
				fmt.Fprintf(std.err, "unloop: this explains bundle %s, but %s uses bundle %s of its --policies file: give that file with --policies\n", e.Bundle, gatewayName(g), g.Bundle.Version)
			}
		}
	}
	return c.show(std, e, func(out *printer) { printExplanation(out, e) })
}

func printExplanation(out *printer, e *gateway.Explanation) {
	out.printf("bundle    %s (%s)\nformat    %s to upstream %s, model %s\n", e.Bundle, e.Source, e.Format, cmp.Or(e.Upstream, "-"), cmp.Or(e.Model, "-"))
	out.printf("caller    %s\nsession   %s\n", e.Caller, cmp.Or(e.Session, "-"))
	if e.Tenant+e.Project != "" {
		out.printf("tenant    %s\nproject   %s\n", cmp.Or(e.Tenant, "-"), cmp.Or(e.Project, "-"))
	}
	switch {
	case e.Killed != "":
		out.printf("\nrefused   %s\n", e.Killed)
		return
	case e.Exempt != "":
		out.printf("\nexempt    by its %s: forwarded without a check\n", e.Exempt)
		return
	case len(e.Policies) == 0:
		out.printf("\nNo policy matches: forwarded without a check.\n")
	}
	if e.Uninspected != "" {
		out.printf("\nThe body could not be inspected (%s): it counts by its bytes.\n", e.Uninspected)
	}
	if e.Unasked != "" {
		out.printf("\nThe detectors were not asked: %s.\n", e.Unasked)
	}
	for _, p := range e.Policies {
		printPolicy(out, p, e.Live)
	}
}

func printPolicy(out *printer, p gateway.PolicyExplained, live bool) {
	mode, failure := "enforce", "open"
	if p.Shadow {
		mode = "shadow"
	}
	if p.FailClosed {
		failure = "closed"
	}
	if p.Reject != "" {
		failure += ", rejects with " + p.Reject
	}
	out.printf("\npolicy %s (%s, fails %s)\n", p.ID, mode, failure)
	for _, d := range p.Detectors {
		out.printf("  %-9s", d.Detector)
		between := " "
		if d.WindowSeconds > 0 {
			out.printf(" threshold %d in %d s (%.3g/s); fingerprint %.16s…", d.Threshold, d.WindowSeconds, d.Rate, d.Fingerprint)
			between = "; "
		}
		if live {
			out.printf("%scount %d, would %s", between, d.Count, d.Would)
		}
		if d.Message != "" {
			out.printf(": %s", d.Message)
		}
		out.printf("\n")
	}
	for _, r := range p.Rules {
		printRule(out, r, live)
	}
	if len(p.Detectors)+len(p.Rules) == 0 {
		out.printf("  no part of it applies to this request\n")
	}
}

func printRule(out *printer, r gateway.RuleExplained, live bool) {
	switch {
	case r.Missing != "":
		out.printf("  rule %s (%s) is skipped: the request has no %s\n", r.Rule, r.Algorithm, r.Missing)
	case live:
		out.printf("  rule %s (%s) takes %g; %g of %g would be left, would %s", r.Rule, r.Algorithm, r.Cost, r.Remaining, r.Limit, r.Would)
	default:
		out.printf("  rule %s (%s) takes %g", r.Rule, r.Algorithm, r.Cost)
	}
	switch {
	case r.Missing != "":
	case r.Price != "":
		out.printf("; priced by %s\n", r.Price)
	default:
		out.printf("\n")
	}
}
