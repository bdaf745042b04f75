package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/doctor"
	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/kit/partition"
	"github.com/unloop/unloop/schemas/status"
)

type statusCmd struct {
	client
	formatted
	watched
}

// overview is the state of the whole system, as JSON.
type overview struct {
	// Running says that a gateway and a detector are ready.
	Running bool            `json:"running"`
	Parts   []status.Status `json:"parts"`
	// OpenLoops is the number of loops whose window is not over, StoppedRequests that of their
	// stopped requests.
	OpenLoops       int `json:"open_loops"`
	StoppedRequests int `json:"stopped_requests"`
	Blocks          int `json:"blocks"`
	Exemptions      int `json:"exemptions"`
	// Partitions describes the partitions of buckets; nil before there are streams.
	Partitions *partition.State `json:"partitions,omitempty"`
	// Copies are the streams that are copied from other regions.
	Copies []natskit.Copy `json:"copies,omitempty"`
}

// Run shows the state of the system. The exit code is 1 if requests are not checked.
func (c *statusCmd) Run(ctx context.Context, std streams) error {
	js, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	running := true
	err = c.draw(ctx, std, func(std streams) error {
		now := time.Now()
		o, err := c.overview(ctx, js, now)
		if err != nil {
			return err
		}
		running = o.Running
		return c.show(std, o, func(out *printer) { printOverview(out, &o, now) })
	})
	if err == nil && !running {
		return exitCode(1)
	}
	return err
}

func (c *statusCmd) overview(ctx context.Context, js jetstream.JetStream, now time.Time) (o overview, err error) {
	o.Parts = append([]status.Status{}, operator.Parts(ctx, js.Conn())...)
	slices.SortFunc(o.Parts, func(a, b status.Status) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), a.Started.Compare(b.Started))
	})
	ready := func(s status.Status) bool { return s.Ready }
	o.Running = slices.ContainsFunc(doctor.Parts(o.Parts, "gateway"), ready) && slices.ContainsFunc(doctor.Parts(o.Parts, "detector"), ready)
	loops, err := storedLoops(ctx, js)
	if err != nil {
		return o, err
	}
	for _, l := range stillOpen(loops, now) {
		o.OpenLoops++
		o.StoppedRequests += l.Saved.Requests
	}
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		if scheme, has := natskit.SchemeOf(info.Config); has {
			state := scheme.State()
			o.Partitions = &state
		}
		o.Copies = append(o.Copies, natskit.Copies(info)...)
	}
	if err := list.Err(); err != nil {
		return o, fmt.Errorf("list streams: %w", err)
	}
	overrides, err := c.standing(ctx, js, now)
	for _, s := range overrides {
		if s.Action == schemas.OverrideBlock {
			o.Blocks++
		} else {
			o.Exemptions++
		}
	}
	return o, err
}

func printOverview(out *printer, o *overview, now time.Time) {
	switch {
	case o.Running:
		out.printf("%s\n\n", out.screen.Paint(terminal.Green, "Unloop is running."))
	default:
		out.printf("%s `unloop doctor` says why, and what to do.\n\n", out.screen.Paint(terminal.Red, "Requests are not checked."))
	}
	t := terminal.NewTable(terminal.Column{Name: "PART"}, terminal.Column{Name: "STATE", MinWidth: 8}, terminal.Column{Name: "LISTENS AT", Rank: 1},
		terminal.Column{Name: "RUNS FOR"}, terminal.Column{Name: "VERSION", Rank: 3, MinWidth: 8}, terminal.Column{Name: "HOST", Rank: 2, MinWidth: 8}, terminal.Column{Name: "NATS SERVER", Rank: 4, MinWidth: 8})
	policies := map[string]bool{}
	for _, p := range o.Parts {
		state := terminal.Cell{Text: "ready", Style: terminal.Green}
		if !p.Ready {
			state = terminal.Cell{Text: cmp.Or(p.Reason, "not ready"), Style: terminal.Red}
		}
		t.Row(p.Service, state, p.Listen, terminal.Age(now.Sub(p.Started)), p.Version, p.Host, p.Server)
		if b := p.Bundle; b != nil {
			policies[b.Version+" ("+b.Source+", "+plural(len(b.Policies)+b.Omitted, "policy")+")"] = true
		}
	}
	out.table(t)
	out.printf("\n")
	if len(policies) > 0 {
		out.printf("Policies in force:  bundle %s\n", strings.Join(slices.Sorted(maps.Keys(policies)), "; bundle "))
	}
	printLacking(out, o.Parts)
	printPartitions(out, o.Partitions)
	printCopies(out, o.Copies, now)
	out.printf("Open loops:         %d, with %s stopped\n", o.OpenLoops, plural(o.StoppedRequests, "request"))
	out.printf("Set by operators:   %s, %s\n", plural(o.Blocks, "block"), plural(o.Exemptions, "exemption"))
}

// printPartitions prints the number of partitions, and the progress of their growth.
func printPartitions(out *printer, state *partition.State) {
	if state == nil {
		return
	}
	text := state.String()
	if state.Phase != partition.Settled {
		text = out.screen.Paint(terminal.Yellow, text)
	}
	out.printf("Partitions:         %s\n", text)
}

// printCopies prints what is copied from other regions.
func printCopies(out *printer, copies []natskit.Copy, now time.Time) {
	for _, c := range copies {
		state := fmt.Sprintf("%d behind", c.Behind)
		if c.Cut(now) {
			state = out.screen.Paint(terminal.Yellow, "cut off")
		}
		out.printf("From region %-7s %s, %s\n", c.Region+":", c.Stream, state)
	}
}

// printLacking prints the problems that parts report about NATS, and their remarks.
func printLacking(out *printer, parts []status.Status) {
	refused, lacking := uint64(0), map[string]bool{}
	for _, p := range parts {
		for _, remark := range p.Remarks {
			out.printf("%s %s at %s: %s\n", out.screen.Paint(terminal.Yellow, "Remark:"), p.Service, p.Host, remark)
		}
		refused += p.Refused
		for stream := range p.MissingReplicas {
			lacking[stream] = true
		}
	}
	if len(lacking) > 0 {
		out.printf("%s   %s with fewer replicas than asked for (unloop nats init --replicas N)\n", out.screen.Paint(terminal.Yellow, "Replicas missing:"), plural(len(lacking), "stream"))
	}
	if refused > 0 {
		out.printf("%s    %s of parts, whose logs name the subjects\n", out.screen.Paint(terminal.Yellow, "Refused by NATS:"), plural(int(refused), "action"))
	}
}
