package main

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unloop/unloop/deploy/bench/measure"
)

// options are the flags.
type options struct {
	// plan is for the parts whose samples have a fixed time.
	plan measure.Plan
	// mostKeys is the number of live fingerprints in the end.
	mostKeys int
	// idle is the time until the memory that they take is measured again.
	idle time.Duration
	// calls is the number of requests of a sample of sessions, inFlight the levels.
	calls    int
	inFlight []int
	// streams are the numbers of streams that are open at once.
	streams []int
	// pause is the time between two chunks.
	pause time.Duration
	// arriving is how long sessions arrive in part sessions-overload.
	arriving time.Duration
	// recorded are files and folders with sessions.
	recorded []string
	// binary is the unloop that is measured instead of this code, and against one that is
	// measured beside it.
	binary, against string
	markdown        bool
	root            string
	// profile is the folder for CPU profiles; none are taken if it is empty.
	profile string
}

// levels are the calls in flight.
var levels = []int{1, 8, 64}

func (b *bench) parse(args []string) ([]part, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&b.plan.Rounds, "rounds", 5, "rounds that count")
	flags.DurationVar(&b.plan.Sample, "sample", 500*time.Millisecond, "time for each contender at each level in a round")
	flags.IntVar(&b.calls, "calls", 2000, "requests of each contender at each level in a round of sessions")
	flags.DurationVar(&b.arriving, "arriving", 6*time.Second, "how long sessions arrive at twice the rate that can be served")
	b.inFlight, b.streams = levels, []int{1, 20, 200, 1000}
	flags.Func("levels", "requests in flight of sessions, such as 1,8,64,256 (default 1,8,64)", numbers(&b.inFlight))
	flags.DurationVar(&b.pause, "pause", 20*time.Millisecond, "time between two chunks of a stream")
	flags.Func("streams", "streams that are open at once (default 1,20,200,1000)", numbers(&b.streams))
	flags.Func("sessions", "file or folder of sessions, or \"generated\"; repeatable (default: those beside the repository, else generated)", func(path string) error {
		b.recorded = append(b.recorded, path)
		return nil
	})
	flags.StringVar(&b.binary, "unloop", "", "binary of unloop to measure instead of this code, in parts sessions, stream, scale and blocked")
	flags.StringVar(&b.against, "against", "", "binary of unloop to measure beside it, in parts sessions, stream and blocked")
	flags.IntVar(&b.mostKeys, "keys", 1_000_000, "live fingerprints of part scale, a power of ten from 1000 on; 0 for none")
	flags.DurationVar(&b.idle, "idle", 5*time.Minute, "time until the memory that live fingerprints take is measured again")
	flags.BoolVar(&b.markdown, "markdown", false, "print tables as Markdown")
	flags.StringVar(&b.root, "root", "..", "folder with the modules; other paths are relative to it")
	flags.StringVar(&b.profile, "profile", "", "folder for profiles of each process, to read with go tool pprof")
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
	b.plan.Rounds, b.plan.Levels, b.calls = max(b.plan.Rounds, 1), levels, max(b.calls, 1)
	for _, path := range []*string{&b.binary, &b.against, &b.profile} {
		*path = b.path(*path)
	}
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

// path returns a path that is relative to the repository as seen from here; "" stays.
func (o *options) path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(o.root, p)
}

// choose returns the parts with the given names. The name of a part also chooses those
// that are named after it: sessions chooses sessions-apart.
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
			return nil, fmt.Errorf("there is no part %q; see --help", name)
		}
	}
	return slices.CompactFunc(chosen, func(a, b part) bool { return a.name == b.name }), nil
}
