package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/traffic"
)

// scale measures what requests and checks cost as their surroundings grow.
func (b *bench) scale(ctx context.Context) error {
	t := &scaleTable{}
	err := errors.Join(b.policies(ctx, t), b.histories(ctx, t), b.keys(ctx, t))
	t.group()
	b.title("scale: what grows, and what it costs")
	b.print(t.table())
	measure.PrintTargets(b.out, t.targets()...)
	if t.notes != nil {
		fmt.Fprintln(b.out)
		b.print(t.notes)
	}
	return err
}

// scaleTable has rows for each thing that grows.
type scaleTable struct {
	rows []scaleRow
	// notes is what the live fingerprints take.
	notes *measure.Table
}

type scaleRow struct {
	what, size string
	sample     measure.Sample
	// kb is the size of the request's body, where that is what grows.
	kb float64
	// first is the index of the first row of the same thing.
	first int
}

func (t *scaleTable) add(what, size string, sample measure.Sample, kb float64) {
	row := scaleRow{what: what, size: size, sample: sample, kb: kb, first: len(t.rows)}
	for i, r := range t.rows {
		if r.what == what {
			row.first = i
			break
		}
	}
	t.rows = append(t.rows, row)
}

// cost is the processor time of a request, or of each KB of it, in ms.
func (r *scaleRow) cost() float64 {
	if r.kb > 0 {
		return r.sample.Figures[figureProcessor] / r.kb
	}
	return r.sample.Figures[figureProcessor]
}

// times is the cost as a multiple of the first row's.
func (t *scaleTable) times(r *scaleRow) float64 { return r.cost() / t.rows[r.first].cost() }

func (t *scaleTable) table() *measure.Table {
	out := &measure.Table{Head: []string{"cost of", "number", "p50", "processor ms", "× the first", "processor µs per KB", "× the first"}}
	for i, r := range t.rows {
		cells := []string{r.what, r.size, measure.Short(r.sample.P50), fmt.Sprintf("%.3f", r.sample.Figures[figureProcessor])}
		times := fmt.Sprintf("%.2f", t.times(&t.rows[i]))
		if r.kb > 0 {
			whole := r.sample.Figures[figureProcessor] / t.rows[r.first].sample.Figures[figureProcessor]
			cells = append(cells, fmt.Sprintf("%.2f", whole), fmt.Sprintf("%.2f", r.cost()*1000), times)
		} else {
			cells = append(cells, times, "", "")
		}
		out.Add(cells...)
	}
	return out
}

// flat is how much more the last row may cost than the first one and still be flat.
const flat = 1.5

// targets are that each thing costs the same however large it is, or each KB of it does.
func (t *scaleTable) targets() []measure.Target {
	var out []measure.Target
	for i, r := range t.rows {
		last := i == len(t.rows)-1 || t.rows[i+1].first != r.first
		if !last || r.first == i || r.what == allMatch || r.what == proxied {
			continue
		}
		each := ""
		if r.kb > 0 {
			each = " for each KB"
		}
		out = append(out, measure.Target{
			Text:   fmt.Sprintf("%s: with %s at most %.1f times the cost of %s%s", r.what, r.size, flat, t.rows[r.first].size, each),
			Levels: []int{1}, Unit: "×", Figure: func(int) (float64, bool) { return t.times(&r), t.times(&r) <= flat },
		})
	}
	return out
}

// scaleRounds are fewer rounds than of other parts: there are many things to measure.
func (b *bench) scaleRounds() int { return (b.plan.Rounds + 1) / 2 }

// What grows.
const (
	oneMatches = "request of a session, by policies of which one matches"
	allMatch   = "request of a session, by policies that all match"
	byRounds   = "request of a session, by tool rounds in its history"
	proxied    = "the same through the bare proxy"
)

// policies measures requests of sessions with bundles of many policies.
func (b *bench) policies(ctx context.Context, t *scaleTable) error {
	return errors.Join(
		b.bundles(ctx, t, oneMatches, b.calls/2, []int{1, 10, 100, 1000}, func(i int) string {
			if i == 0 {
				return "/v1/"
			}
			return fmt.Sprintf("/team-%d/", i)
		}),
		b.bundles(ctx, t, allMatch, b.calls/10, []int{1, 10, 100}, func(int) string { return "/v1/" }))
}

func (b *bench) bundles(ctx context.Context, t *scaleTable, what string, calls int, sizes []int, prefix func(i int) string) (err error) {
	s, err := b.newStage(ctx)
	defer func() { err = errors.Join(err, s.end()) }()
	if err != nil {
		return err
	}
	var contenders []measure.Contender
	for _, n := range sizes {
		in, err := b.startUp(ctx, unloop{binary: b.binary, policies: bundle(n, prefix), flags: patient}, s.upstream, &s.ender)
		if err != nil {
			return err
		}
		contenders = append(contenders, b.sessionContender(fmt.Sprint(n), in, s.all))
	}
	res, err := measure.Compare(ctx, measure.Plan{Rounds: b.scaleRounds(), Calls: max(calls, 1), Levels: []int{1}}, contenders...)
	if err != nil {
		return err
	}
	for _, n := range sizes {
		t.add(what, measure.Grouped(float64(n)), res.Median(fmt.Sprint(n), 1), 0)
	}
	return nil
}

// bundle returns n policies with exact detectors, in YAML.
func bundle(n int, prefix func(i int) string) string {
	var out strings.Builder
	out.WriteString("bundle_version: 1\npolicies:\n")
	for i := range n {
		fmt.Fprintf(&out, `  - id: policy-%d
    spec:
      selector: {pathPrefix: %s, methods: [POST]}
      prompt: {max_hits: 5, window_seconds: 60, cooldown_seconds: 30}
      tool: {warn_threshold: 3, block_threshold: 5}
      cycle: {}
`, i, prefix(i))
	}
	return out.String()
}

const (
	// roundSize is the size of a tool round in a long history, in bytes.
	roundSize = 1000
	// newRounds is the number of requests that are sent of a long session, each a round
	// longer: all but the first have the history that was sent before.
	newRounds = 8
	// historyBytes bounds what is sent of a long history in a sample.
	historyBytes = 40 << 20
)

// histories measures the last requests of long sessions, with the default policy.
func (b *bench) histories(ctx context.Context, t *scaleTable) (err error) {
	s, err := b.newStage(ctx)
	defer func() { err = errors.Join(err, s.end()) }()
	if err != nil {
		return err
	}
	in, err := b.startUp(ctx, unloop{binary: b.binary, flags: patient}, s.upstream, &s.ender)
	if err != nil {
		return err
	}
	for _, rounds := range []int{10, 100, 1000} {
		long, err := traffic.Long(rounds, roundSize, newRounds)
		if err != nil {
			return err
		}
		kb := float64(traffic.ShapeOf([]traffic.Session{long}).Mean) / 1000
		plan := measure.Plan{Rounds: b.scaleRounds(), Levels: []int{1}, Calls: min(b.calls, historyBytes/1000/int(kb))}
		res, err := measure.Compare(ctx, plan,
			b.sessionContender(proxied, s.proxy, []traffic.Session{long}),
			b.sessionContender(byRounds, in, []traffic.Session{long}))
		if err != nil {
			return err
		}
		size := fmt.Sprintf("%s (%.0f KB)", measure.Grouped(float64(rounds)), kb)
		t.add(byRounds, size, res.Median(byRounds, 1), kb)
		t.add(proxied, size, res.Median(proxied, 1), kb)
	}
	return nil
}

// group puts the rows of each thing together, in the order in which things came.
func (t *scaleTable) group() {
	all := t.rows
	t.rows = nil
	for i, first := range all {
		if first.first != i {
			continue
		}
		for _, r := range all {
			if r.what == first.what {
				t.add(r.what, r.size, r.sample, r.kb)
			}
		}
	}
}
