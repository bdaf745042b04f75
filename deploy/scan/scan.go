// Package scan finds loops in recorded agent sessions, what they cost, and what Unloop would
// have done. It reads files and evaluates them with package replay, which runs the code of
// gateways and detectors.
//
// Nothing leaves the machine. It does not know the command line.
package scan

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
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
	// Since is the time before which requests are left out; zero leaves out none.
	Since time.Time
	// Pace is the assumed time between two requests of a session without times.
	Pace time.Duration
	// Progress is called by several goroutines with numbers of evaluated bytes, which add up
	// to the size of the files. It may be nil.
	Progress func(n int64)
}

// Files evaluates files on all processors and returns one report. Entries that can't be read
// are counted and skipped. A request that is in several sessions, because one continues a copy
// of another, counts in the first of them.
func Files(ctx context.Context, files []File, cfg Config) (*Report, error) {
	base, err := replay.New(ctx, replay.Config{Policies: cfg.Policies, Pace: cfg.Pace, Embedworker: cfg.Embedworker})
	if err != nil {
		return nil, err
	}
	defer func() { _ = base.Close() }() // nothing is kept
	s := &scanner{Config: cfg, base: base}
	files, faults := split(files)
	results := make([]*result, len(files))
	all := make([]int, len(files))
	for i := range all {
		all[i] = i
	}
	each(ctx, all, func(i int) {
		done := meter{size: files[i].Size, tell: cfg.Progress}
		results[i] = s.file(ctx, files[i], done.upTo, nil)
		done.upTo(files[i].Size)
	})
	if ctx.Err() == nil {
		owners, shared := owners(files, results)
		each(ctx, shared, func(i int) {
			results[i] = s.file(ctx, files[i], func(int64) {}, func(origin uint64) bool { return owners[origin] != i })
		})
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := newReport()
	out.Unreadable = faults
	for i, r := range results {
		out.add(files[i], r)
	}
	out.finish()
	return out, nil
}

// each calls work with each number, on all processors. Goroutines are reused because their stacks
// have grown.
func each(ctx context.Context, numbers []int, work func(i int)) {
	var workers sync.WaitGroup
	var begun atomic.Int64
	for range min(runtime.GOMAXPROCS(0), len(numbers)) {
		workers.Go(func() {
			for ctx.Err() == nil {
				n := int(begun.Add(1))
				if n > len(numbers) {
					return
				}
				work(numbers[n-1])
			}
		})
	}
	workers.Wait()
}

// split returns files split into the parts that can be read separately, and the number of files
// that can't be read.
func split(files []File) (out []File, faults int) {
	for _, f := range files {
		if f.Agent == nil || f.Agent.Parts == nil {
			out = append(out, f)
			continue
		}
		parts, err := f.Agent.Parts(f.Path)
		if err != nil {
			faults++
			continue
		}
		if parts == nil {
			out = append(out, f)
		}
		for _, p := range parts {
			out = append(out, File{Path: f.Path, Set: f.Set, Part: p.Name, Size: int64(p.Share * float64(f.Size)), Agent: f.Agent})
		}
	}
	return out, faults
}

// owners returns the file in which each request counts, by the request's origin: the file that
// begins first. shared are the files that have to be evaluated again without requests that count
// elsewhere. If that would leave nothing of a file, its result is cleared.
func owners(files []File, results []*result) (owners map[uint64]int, shared []int) {
	order := make([]int, 0, len(files))
	for i, r := range results {
		if r.report != nil {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(results[a].begin().Compare(results[b].begin()), cmp.Compare(files[a].Path, files[b].Path))
	})
	owners = map[uint64]int{}
	for _, i := range order {
		own, foreign, r := false, false, results[i]
		for _, origin := range r.origins {
			if owner, known := owners[origin]; !known {
				owners[origin], own = i, true
			} else if owner != i {
				foreign = true
			}
		}
		switch {
		case foreign && !own && r.faults == 0 && len(r.origins) == r.report.Requests:
			results[i] = &result{}
		case foreign:
			shared = append(shared, i)
		}
	}
	return owners, shared
}

// result is the result of a file.
type result struct {
	report *replay.Report
	// sessions counts the requests of each session. shown has what each loop repeats, by id.
	sessions map[string]int
	shown    map[string]excerpts.Loop
	newest   map[string]*logs.Request // the newest request of each loop, while the file is read
	// marks has the first requests with each action, by loop.
	marks map[string]Did
	// texts describes the loops.
	texts map[string]string
	// origins are the hashes of the requests' origins.
	origins []uint64
	faults  int
}

// begin returns the first recorded time; zero without any.
func (r *result) begin() (at time.Time) {
	if r.report.From != nil {
		at = *r.report.From
	}
	return at
}

// meter reports the progress of a file.
type meter struct {
	at, size int64
	tell     func(n int64) // may be nil
}

// upTo reports that the first n bytes were evaluated.
func (m *meter) upTo(n int64) {
	if n = min(n, m.size); n > m.at && m.tell != nil {
		m.tell(n - m.at)
		m.at = n
	}
}

// scanner evaluates files.
type scanner struct {
	Config
	base *replay.Run // has the policies and the embedder
}

// file evaluates a file without the requests for whose origins skip, if not nil, returns true.
// read is called with the number of bytes evaluated so far.
func (s *scanner) file(ctx context.Context, f File, read func(n int64), skip func(origin uint64) bool) *result {
	r := &result{sessions: map[string]int{}, shown: map[string]excerpts.Loop{}, newest: map[string]*logs.Request{}, marks: map[string]Did{}, texts: map[string]string{}}
	var findings []*checkpb.Finding
	run := s.base.Another(func(d *checkpb.Decision) { findings = d.GetFindings() })
	for q, err := range logs.InOrder(open(f)) {
		if err != nil {
			r.faults++
			continue
		}
		read(q.Read)
		origin := hashOf(f, &q)
		if !q.Time.IsZero() && q.Time.Before(s.Since) || origin != 0 && skip != nil && skip(origin) {
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
		if origin != 0 {
			r.origins = append(r.origins, origin)
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

// hashOf returns a hash of the origin of a request, or 0 if that is not known.
func hashOf(f File, q *logs.Request) uint64 {
	if q.Origin == "" {
		return 0
	}
	return maphash.String(seed, f.Agent.Name+"/"+q.Origin)
}

var seed = maphash.MakeSeed()

// maxKept is the number of loops whose newest request is kept before its rounds are read.
const maxKept = 64

// show reads the rounds of the kept requests.
func (r *result) show(ctx context.Context, run *replay.Run, path string) {
	for id, q := range r.newest {
		if rounds, err := run.Rounds(ctx, path, q); err == nil { // the decision stands without them
			r.shown[id] = rounds
		}
	}
	clear(r.newest)
}

// found records the findings about a request, and keeps the request to read its rounds later.
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
	if name := replay.SessionName(path, q); name != "" {
		return name
	}
	return fmt.Sprintf("line %d", q.Line)
}

// open returns the requests in a file.
func open(f File) iter.Seq2[logs.Request, error] {
	if f.Agent != nil {
		return requests(f.Agent.Name, f.Agent.Read(f.Path, f.Part))
	}
	return func(yield func(logs.Request, error) bool) {
		in, err := os.Open(f.Path)
		if err != nil {
			yield(logs.Request{}, fmt.Errorf("open: %w", err))
			return
		}
		defer func() { _ = in.Close() }() // it was only read
		all := counted{Reader: in}
		var before int64 // offset of the current entry
		line, read := 0, int64(0)
		for q, err := range logs.Open(bufio.NewReader(&all)) {
			if q.Line != line {
				line, before = q.Line, read
			}
			read = all.n
			if q.Read = before + int64(cmp.Or(q.Share, 1)*float64(read-before)); !yield(q, err) {
				return
			}
		}
	}
}

// counted counts the bytes that are read.
type counted struct {
	io.Reader
	n int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}
