package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/unloop/unloop/deploy/bench/usage"
	"github.com/unloop/unloop/schemas/kit/pause"
)

// samples is the number of samples that a soak takes of each process.
const samples = 30

// errGrows is the error for a metric that grew all the time.
var errGrows = errors.New("not flat")

// watched are the metrics that must be flat, with the allowed difference.
var watched = []struct {
	metric string
	slack  float64
}{
	{"process_resident_memory_bytes", 64 << 20},
	{"go_goroutines", 50},
	{"process_open_fds", 30},
}

// soak runs the load for a time, and compares the last third of the samples of each
// process with the middle third; the first is for warming up.
func (c *cluster) soak(ctx context.Context, length time.Duration, out io.Writer) error {
	r := &tally{result: result{name: "soak"}, loops: map[string]bool{}}
	loading, stop := context.WithCancel(ctx)
	defer stop()
	var load sync.WaitGroup
	load.Go(func() { c.load(loading, r, every, 0) })
	seen := map[string][]float64{}
	for range samples {
		if err := pause.For(ctx, length/samples); err != nil {
			return err
		}
		c.sample(ctx, seen)
	}
	stop()
	load.Wait()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%d requests, %d client errors, slowest %s\nprocess\tmetric\tmiddle\tend\t\n", r.requests, r.failed, r.slowest.Round(time.Millisecond))
	var faults []error
	if r.failed > 0 {
		faults = append(faults, fmt.Errorf("%w: %d client errors, such as %w", errGoal, r.failed, r.example))
	}
	for _, p := range c.parts() {
		for _, w := range watched {
			all := seen[p.name+" "+w.metric]
			if len(all) < 3 {
				continue
			}
			middle, end := mean(all[len(all)/3:2*len(all)/3]), mean(all[2*len(all)/3:])
			fmt.Fprintf(table, "%s\t%s\t%.0f\t%.0f\t\n", p.name, w.metric, middle, end)
			if end > middle+w.slack {
				faults = append(faults, fmt.Errorf("%w: %s of %s went from %.0f to %.0f", errGrows, w.metric, p.name, middle, end))
			}
		}
	}
	return errors.Join(append(faults, table.Flush())...)
}

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}

// sample adds the current metrics of each process that answers.
func (c *cluster) sample(ctx context.Context, seen map[string][]float64) {
	for _, p := range c.parts() {
		values, _ := usage.Metrics(ctx, "http://"+p.admin+"/metrics")
		for _, w := range watched {
			if v, ok := values[w.metric]; ok {
				seen[p.name+" "+w.metric] = append(seen[p.name+" "+w.metric], v)
			}
		}
	}
}
