// Package scan finds out where recorded agents went round in circles: what it cost, and what
// Unloop would have done. It reads files, evaluates them with package replay, which decides by the
// code of gateways and detectors, and reports.
//
// Nothing leaves the machine, and nothing is written. It knows no command line.
package scan

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"iter"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/unloop/unloop/deploy/replay"
	"github.com/unloop/unloop/deploy/replay/logs"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/excerpts"
)

// Config configures a scan.
type Config struct {
	// Policies is the file of the bundle; "" is the default policy.
	Policies    string
	Embedworker embedworker.Config
	// Since leaves earlier requests out; zero for none.
	Since time.Time
	// Pace is the assumed time between two requests of a session without times.
	Pace time.Duration
	// Progress is called with the bytes of each file that was read; it may be nil.
	Progress func(File)
}

// Files evaluates files, on all processors, and returns a report on all of them. A file that
// can't be read is counted, and the others are not affected.
func Files(ctx context.Context, files []File, cfg Config) (*Report, error) {
	results := make([]*result, len(files))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), max(1, len(files))) {
		workers.Go(func() {
			for i := range next {
				results[i] = scanFile(ctx, files[i], cfg)
				if cfg.Progress != nil {
					cfg.Progress(files[i])
				}
			}
		})
	}
	for i := range files {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := newReport()
	for i, r := range results {
		if r.err != nil {
			return nil, r.err
		}
		out.add(files[i], r)
	}
	out.finish()
	return out, nil
}

// result is what is known of a file.
type result struct {
	report *replay.Report
	// sessions counts the requests of each session, and shown is what loops repeat, by
	// their ids.
	sessions map[string]int
	shown    map[string]excerpts.Loop
	newest   map[string]*logs.Request // of each loop, while the file is read
	// marks are the first requests of a session with each action about a loop.
	marks map[string]Did
	// texts name loops in words.
	texts  map[string]string
	faults int
	err    error
}

// scanFile evaluates a file. Only a fault of the configuration is an error.
func scanFile(ctx context.Context, f File, cfg Config) *result {
	r := &result{sessions: map[string]int{}, shown: map[string]excerpts.Loop{}, newest: map[string]*logs.Request{}, marks: map[string]Did{}, texts: map[string]string{}}
	var findings []*checkpb.Finding
	run, err := replay.New(ctx, replay.Config{
		Policies: cfg.Policies, Pace: cfg.Pace, Embedworker: cfg.Embedworker, Decided: func(d *checkpb.Decision) { findings = d.GetFindings() },
	})
	if err != nil {
		r.err = err
		return r
	}
	defer func() { _ = run.Close() }() // nothing is kept
	for q, err := range logs.InOrder(open(f)) {
		if err != nil {
			r.faults++
			continue
		}
		if !q.Time.IsZero() && q.Time.Before(cfg.Since) {
			if err := run.Pass(ctx, f.Path, &q); err != nil {
				r.faults++
			}
			continue
		}
		findings = nil
		if err := run.Request(ctx, f.Path, &q); err != nil {
			if ctx.Err() != nil {
				return r
			}
			r.faults++
			continue
		}
		if q.Answer == nil {
			r.sessions[nameOf(f.Path, &q)]++
			r.found(run, f.Path, &q, findings)
		}
		if len(r.newest) > maxKept {
			r.show(ctx, run, f.Path)
		}
	}
	r.show(ctx, run, f.Path)
	r.report = run.Report()
	return r
}

// maxKept is how many requests are kept of loops that may go on.
const maxKept = 64

// show reads the rounds of the requests that are kept.
func (r *result) show(ctx context.Context, run *replay.Run, path string) {
	for id, q := range r.newest {
		if rounds, err := run.Rounds(ctx, path, q); err == nil { // the decision stands without them
			r.shown[id] = rounds
		}
	}
	clear(r.newest)
}

// found marks the findings about a request, and keeps it for the rounds that it shows.
func (r *result) found(run *replay.Run, path string, q *logs.Request, findings []*checkpb.Finding) {
	findings = slices.DeleteFunc(slices.Clone(findings), func(f *checkpb.Finding) bool { return f.GetLoopId() == "" })
	if len(findings) == 0 {
		return
	}
	n := r.sessions[nameOf(path, q)]
	kept := run.Keep(q)
	for _, f := range findings {
		id := f.GetLoopId()
		r.marks[id], r.texts[id], r.newest[id] = r.marks[id].with(f, n), f.Facts().Text(), kept
	}
}

// nameOf returns the name of a request's session. A request without one stands alone.
func nameOf(path string, q *logs.Request) string {
	return cmp.Or(replay.SessionName(path, q), fmt.Sprintf("line %d", q.Line))
}

// open returns the requests of a file.
func open(f File) iter.Seq2[logs.Request, error] {
	if f.Agent != nil {
		return requests(f.Agent.Name, f.Agent.Read(f.Path))
	}
	return func(yield func(logs.Request, error) bool) {
		in, err := os.Open(f.Path)
		if err != nil {
			yield(logs.Request{}, fmt.Errorf("open: %w", err))
			return
		}
		defer func() { _ = in.Close() }() // it was only read
		for q, err := range logs.Open(bufio.NewReader(in)) {
			if !yield(q, err) {
				return
			}
		}
	}
}
