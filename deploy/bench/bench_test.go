package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/unloop/unloop/deploy/bench/roles"
	"github.com/unloop/unloop/schemas/kit/service"
)

// TestMain lets this executable play the roles of benchmarks.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == roles.Command {
		ctx, stop := service.Context()
		defer stop()
		if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		return
	}
	m.Run()
}

// output runs the benchmark with few calls and returns what it prints.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), append([]string{"-rounds", "1"}, args...), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return out.String()
}

func mustContain(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in:\n%s", w, text)
		}
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	out := output(t, "-markdown", "-sessions", "generated", "-calls", "20", "-levels", "2", "-arriving", "200ms", "sessions")
	mustContain(t, out,
		"100 sessions, 1200 requests of 12.2 KB",
		"| at 2 in flight | bare httputil.ReverseProxy | Unloop, exact detectors | Unloop, default policy |\n|---|---|---|---|\n| p50 ms | ",
		"| processor ms per request | ", "| allocations per request | ", "| unjudged % | 0.00 | ",
		"Unloop, default policy, to JetStream per request: LOOP_COUNTERS ",
		"Unloop, four processes", "| Unloop, one process, 64 in flight | ", "| Unloop, four processes, 256 in flight | ", " requests/s arrive | ")
}

func TestStreams(t *testing.T) {
	t.Parallel()
	out := output(t, "-markdown", "-streams", "2", "-pause", "1ms", "-sample", "20ms", "stream")
	mustContain(t, out, "streams of 50 chunks, every 1ms", "| first chunk after ms, p50 | ", "| delay of a chunk in ms, p99 | ",
		"streams of 50 chunks, at once", "| KiB of memory for each of 2 open streams | ")
}

func TestScale(t *testing.T) {
	t.Parallel()
	out := output(t, "-markdown", "-sessions", "generated", "-keys", "1000", "-idle", "1ms", "-calls", "8", "scale")
	mustContain(t, out, "| "+oneMatches+" | 1 000 | ", "| "+allMatch+" | 100 | ", "| "+byRounds+" | 1 000 (", "| "+proxied+" | 10 (",
		"| check of a live fingerprint, by live ones | 1 000 | ", "| 1 000 live fingerprints |  |", "| restart after SIGKILL | ")
}

func TestSizing(t *testing.T) {
	t.Parallel()
	out := output(t, "-markdown", "-sessions", "generated", "-calls", "64", "-sample", "20ms", "sizing")
	mustContain(t, out, "/s, with ", "| detectors | in flight | checks/s | predicted | error |", "| 1 | 64 | ", " % (calibrated) | ", "| 2 | 256 | ",
		"The prediction is off by ", "| 4, 4 | ", "| embedding worker | ", "a conversation leaves ", "| 20 000 | ")
}

func TestFlagsThatAreWrongAreErrors(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"nothing"}, {"-levels", "1,0", "sessions"}, {"-sessions", "nowhere.jsonl", "sessions"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q is no error", args)
		}
	}
}
