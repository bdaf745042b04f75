// Command bench (`make bench`) measures Unloop side by side with other programs, and
// prints tables.
//
// It runs Unloop as processes, and does not know how they work inside.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/unloop/unloop/deploy/bench/measure"
)

// bench is one run of the benchmark.
type bench struct {
	out io.Writer
	options
	// group has what the current part has started.
	group
	// dir is the folder for everything that the run writes.
	dir string
	// marks counts the replays of sessions, which differ in their marks.
	marks atomic.Uint32
}

// part is one of the things that can be measured.
type part struct {
	name, help string
	run        func(*bench, context.Context) error
}

var parts = []part{
	{"sessions-proxy", "real sessions of agents through the gateway, against a bare proxy", (*bench).sessions},
	{"sessions-peers", "the same, beside nginx, Caddy and Portkey's gateway", (*bench).besidePeers},
	{"sessions-streamed", "the same with streamed answers, whose chunks come at once and 8 ms apart", (*bench).streamed},
	{"sessions-long", "sessions whose requests have 1 MB and grow by a round each", (*bench).long},
	{"cluster", "the processor time of NATS servers and services as processes, with one replica and with three, one partition and four, at given rates", (*bench).cluster},
	{"stream", "streamed answers through the gateway, against a bare proxy, and the memory of open streams", (*bench).stream},
	{"check", "the check path, in one process and in three, against a NATS echo and Redis", (*bench).check},
	{"detectors", "the check path with one, two and four detectors", (*bench).detectors},
	{"blocked", "requests of blocked loops, against a bare handler", (*bench).blocked},
	{"scan", "the processor time of unloop scan over sessions of agents", (*bench).scans},
	{"beside", "questions of other gateways, against what answers all of them", (*bench).beside},
}

// options are the flags.
type options struct {
	// plan is for the parts whose samples have a fixed time.
	plan measure.Plan
	// calls is the number of requests of a sample of sessions.
	calls int
	// rates are the requests in a second of the part cluster.
	rates []int
	// streams are the numbers of streams that are open at once.
	streams []int
	// chunks are the numbers of chunks in which answers of sessions are streamed.
	chunks []int
	// pause is the time between two chunks.
	pause time.Duration
	// recorded are files and folders with sessions.
	recorded []string
	// binary is the unloop that is measured instead of this code, and against one that is
	// measured beside it.
	binary, against string
	// model is the folder of a model; "" for none.
	model    string
	markdown bool
}

// run measures the parts that args name, all by default.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 1 && roles[args[0]] != nil {
		return roles[args[0]](ctx, args[1:])
	}
	b := &bench{out: out}
	chosen, err := b.parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	if b.dir, err = os.MkdirTemp("", "unloop-bench-"); err != nil {
		return fmt.Errorf("make a folder for stores: %w", err)
	}
	fmt.Fprintf(out, "%s, %s/%s, %d CPUs; medians of %d interleaved rounds\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), b.plan.Rounds)
	return errors.Join(b.run(ctx, chosen), os.RemoveAll(b.dir))
}

func (b *bench) parse(args []string) ([]part, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&b.plan.Rounds, "rounds", 5, "rounds that count")
	flags.DurationVar(&b.plan.Sample, "sample", 500*time.Millisecond, "time for each contender at each level in a round of checks and blocked loops")
	b.plan.Levels, b.streams, b.chunks = []int{1, 8, 64}, []int{1, 20, 200, 1000}, []int{20, 150, 1000}
	flags.Func("levels", "requests in flight, such as 1,8,64,256 (default 1,8,64)", numbers(&b.plan.Levels))
	b.rates = []int{300, 1000}
	flags.Func("rates", "requests/s of the part cluster, before as many as are answered (default 300,1000)", numbers(&b.rates))
	flags.IntVar(&b.calls, "calls", 2000, "requests of each contender at each level in a round of sessions")
	flags.Func("sessions", "file or folder of sessions, or \"generated\"; repeatable (default: those beside the repository, else generated)", func(path string) error {
		b.recorded = append(b.recorded, path)
		return nil
	})
	flags.Func("streams", "streams that are open at once (default 1,20,200,1000)", numbers(&b.streams))
	flags.Func("chunks", "chunks of the streamed answers of sessions (default 20,150,1000)", numbers(&b.chunks))
	flags.DurationVar(&b.pause, "pause", 20*time.Millisecond, "time between two chunks of a stream; 0 for all at once")
	flags.StringVar(&b.binary, "unloop", "", "binary of unloop to measure instead of this code, in parts sessions, stream, scan, blocked and beside")
	flags.StringVar(&b.against, "against", "", "binary of unloop to measure beside it, in parts sessions, stream, scan, blocked and beside")
	flags.StringVar(&b.model, "model", "", "folder of a model for ONNX Runtime, measured in part sessions-peers; set UNLOOP_ONNX_RUNTIME where unloop model pull did not install it")
	flags.BoolVar(&b.markdown, "markdown", false, "print tables as Markdown")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "bench [flags] [part…]")
		for _, p := range parts {
			fmt.Fprintf(flags.Output(), "  %-17s  %s\n", p.name, p.help)
		}
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	b.plan.Rounds, b.calls = max(b.plan.Rounds, 1), max(b.calls, 1)
	b.binary, b.against, b.model = inRepository(b.binary), inRepository(b.against), inRepository(b.model)
	return choose(flags.Args())
}

var errNumbers = errors.New("want positive numbers with commas between them")

// numbers returns a flag's function that sets a list.
func numbers(to *[]int) func(string) error {
	return func(text string) error {
		*to = nil
		for field := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(field))
			if err != nil || n < 1 {
				return errNumbers
			}
			*to = append(*to, n)
		}
		return nil
	}
}

// inRepository returns the path for this process, which runs in the module deploy, of a
// path relative to the repository. "" stays "".
func inRepository(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join("..", path)
}

// choose returns the parts with the given names, or whose names begin so: sessions
// chooses sessions-proxy and sessions-long.
func choose(names []string) ([]part, error) {
	if len(names) == 0 {
		return parts, nil
	}
	var chosen []part
	for _, name := range names {
		before := len(chosen)
		for _, p := range parts {
			if p.name == name || strings.HasPrefix(p.name, name+"-") {
				chosen = append(chosen, p)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("there is no part %q; see -h", name)
		}
	}
	return slices.CompactFunc(chosen, func(a, b part) bool { return a.name == b.name }), nil
}

// run measures each part; after an error it goes on with the next.
func (b *bench) run(ctx context.Context, chosen []part) error {
	var broken []error
	for _, p := range chosen {
		started := time.Now()
		if err := errors.Join(p.run(b, ctx), b.end()); err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", p.name, err))
			fmt.Fprintf(b.out, "\n%s broke off: %v\n", p.name, err)
		}
		fmt.Fprintf(b.out, "(%s took %s)\n", p.name, time.Since(started).Round(time.Second))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(broken...)
}

// print prints a table under a title.
func (b *bench) print(t *measure.Table, title string) {
	fmt.Fprintf(b.out, "\n%s\n%s\n", title, strings.Repeat("-", len([]rune(title))))
	if b.markdown {
		t.Markdown(b.out)
		return
	}
	t.Print(b.out)
}

// show prints the figures of all contenders, and further rows; where another binary was
// measured, also its figures beside this one's.
func (b *bench) show(res *measure.Results, base string, figures []measure.Figure, title string, further ...[]string) {
	t := res.Table(base, figures)
	t.Rows = append(t.Rows, further...)
	b.print(t, title)
	if against := res.Against(againstSuffix, figures); len(against.Head) > 1 {
		b.print(against, "this binary, and in brackets what it has of the other one's")
	}
	if n := res.Failed(); n > 0 {
		fmt.Fprintf(b.out, "%d operations failed and do not count.\n", n)
	}
}

// againstSuffix follows the names of the other binary's contenders.
const againstSuffix = ", other binary"

// rival is a binary that is measured; suffix follows the names of its contenders.
type rival struct{ suffix, binary string }

func (b *bench) rivals() []rival {
	all := []rival{{"", b.binary}}
	if b.against != "" {
		all = append(all, rival{againstSuffix, b.against})
	}
	return all
}
