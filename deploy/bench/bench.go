// Command bench (`make bench`) measures Unloop side by side with other programs and prints
// tables in Markdown. It runs Unloop as processes and does not look inside them.
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
	// plan has the rounds and levels of most parts, and the calls of a sample of sessions.
	plan measure.Plan
	// rates are requests per second, for the part cluster.
	rates []int
	// streams are numbers of streams that are open at once.
	streams []int
	// chunks are numbers of chunks of the streamed answers of sessions.
	chunks []int
	// pause is the time between two chunks.
	pause time.Duration
	// recorded are files and folders with sessions.
	recorded []string
	// binary is an unloop to measure instead of this code, against one to measure beside it.
	binary, against string
	// model is the folder of a model for ONNX Runtime; "" for none.
	model string
	// ends stop what the current part has started.
	ends []func() error
	// dir is the folder for everything that the run writes.
	dir string
	// marks numbers the replays of sessions; each replay has its own mark.
	marks atomic.Uint32
}

// part is a measurement that can be chosen by name.
type part struct {
	name, help string
	run        func(*bench, context.Context) error
}

var parts = []part{
	{"sessions-proxy", "agent sessions through the gateway, against a bare proxy", (*bench).sessions},
	{"sessions-peers", "the same, beside nginx, Caddy and Portkey's gateway", (*bench).besidePeers},
	{"sessions-streamed", "the same with streamed answers, with chunks at once and 8 ms apart", (*bench).streamed},
	{"sessions-long", "the same with requests of 1 MB that grow by a round each", (*bench).long},
	{"cluster", "processor time of NATS servers and services at given rates, with one and three replicas, one and four partitions", (*bench).cluster},
	{"stream", "streamed answers through the gateway, against a bare proxy", (*bench).stream},
	{"stream-memory", "memory of open streams", (*bench).streamMemory},
	{"check-together", "the check path in one process, against a NATS echo and Redis", (*bench).checkTogether},
	{"check-apart", "the same in three processes", (*bench).checkApart},
	{"detectors", "the check path with one, two and four detectors", (*bench).detectors},
	{"blocked", "refusals of blocked loops, against a bare handler", (*bench).blocked},
	{"scan", "processor time of unloop scan", (*bench).scans},
	{"beside", "questions of other gateways, against a server that always says yes", (*bench).beside},
}

// run measures the parts that args name, or all.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 1 && roles[args[0]] != nil {
		return roles[args[0]](ctx, args[1:])
	}
	b := &bench{out: out, plan: measure.Plan{Levels: []int{1, 8, 64}}, rates: []int{300, 1000}, streams: []int{1, 20, 200, 1000}, chunks: []int{20, 150, 1000}}
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
	flags.IntVar(&b.plan.Rounds, "rounds", 5, "rounds after the warm-up")
	flags.Func("levels", "requests in flight, such as 1,8,64,256 (default 1,8,64)", numbers(&b.plan.Levels))
	flags.Func("rates", "requests/s of the part cluster, before full speed (default 300,1000)", numbers(&b.rates))
	flags.IntVar(&b.plan.Calls, "calls", 2000, "requests of a sample of sessions; short requests have five times as many")
	flags.Func("sessions", "file or folder of sessions, or \"generated\"; repeatable (default: those beside the repository, else generated)", func(path string) error {
		if path != generated {
			path = inRepository(path)
		}
		b.recorded = append(b.recorded, path)
		return nil
	})
	flags.Func("streams", "streams that are open at once (default 1,20,200,1000)", numbers(&b.streams))
	flags.Func("chunks", "chunks of streamed answers of sessions (default 20,150,1000)", numbers(&b.chunks))
	flags.DurationVar(&b.pause, "pause", 20*time.Millisecond, "time between two chunks of a stream; 0 for all at once")
	flags.StringVar(&b.binary, "unloop", "", "unloop binary to measure instead of this code, in the parts sessions, stream, scan, blocked and beside")
	flags.StringVar(&b.against, "against", "", "unloop binary to measure beside it, in the same parts")
	flags.StringVar(&b.model, "model", "", "folder of a model for ONNX Runtime, measured in part sessions-peers; set UNLOOP_ONNX_RUNTIME where unloop model pull did not install it")
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
	b.plan.Rounds, b.plan.Calls = max(b.plan.Rounds, 1), max(b.plan.Calls, 1)
	b.binary, b.against, b.model = inRepository(b.binary), inRepository(b.against), inRepository(b.model)
	return choose(flags.Args())
}

// numbers returns the function of a flag that sets a list.
func numbers(to *[]int) func(string) error {
	return func(text string) error {
		*to = nil
		for field := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(field))
			if err != nil || n < 1 {
				return errors.New("want positive numbers with commas between them")
			}
			*to = append(*to, n)
		}
		return nil
	}
}

// inRepository turns a path relative to the repository into one for this process, which runs
// in the module deploy. "" stays "".
func inRepository(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join("..", path)
}

// choose returns the parts with the given names or prefixes: sessions chooses sessions-proxy,
// sessions-streamed and sessions-long.
func choose(names []string) ([]part, error) {
	if len(names) == 0 {
		return parts, nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.is(name) }) {
			return nil, fmt.Errorf("there is no part %q; see -h", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return !slices.ContainsFunc(names, p.is) }), nil
}

// is reports whether the part has a name or begins with it and a hyphen.
func (p part) is(name string) bool { return p.name == name || strings.HasPrefix(p.name, name+"-") }

// run measures each part. After an error it goes on with the next one.
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
	t.Print(b.out)
}

// show prints the figures of all contenders and further rows, and a comparison with the other
// binary if one was measured.
func (b *bench) show(res *measure.Results, base string, figures []measure.Figure, title string, further ...[]string) {
	t := res.Table(base, figures)
	t.Rows = append(t.Rows, further...)
	b.print(t, title)
	if against := res.Against(againstSuffix, figures); len(against.Head) > 1 {
		b.print(against, "this binary, compared with the other one in parentheses")
	}
	if n := res.Failed(); n > 0 {
		fmt.Fprintf(b.out, "%d operations failed and do not count.\n", n)
	}
}

// againstSuffix ends the names of the other binary's contenders.
const againstSuffix = ", other binary"

// rivals returns the binaries to measure, with the ends of their contenders' names.
func (b *bench) rivals() []unloop {
	all := []unloop{{binary: b.binary}}
	if b.against != "" {
		all = append(all, unloop{name: againstSuffix, binary: b.against})
	}
	return all
}
