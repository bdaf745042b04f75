package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMain lets this executable play the roles of benchmarks.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == unloopRole || roles[os.Args[1]] != nil) {
		main()
	}
	os.Exit(m.Run())
}

// spaces align the columns of tables.
var spaces = regexp.MustCompile(` +`)

// output runs the benchmark and returns what it prints, without aligned columns.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), append([]string{"-rounds", "1"}, args...), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return spaces.ReplaceAllString(out.String(), " ")
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
	out := output(t, "-sessions", "generated", "-calls", "20", "-levels", "2", "sessions-proxy")
	mustContain(t, out,
		"100 sessions, 1200 requests of 12.2 KB",
		"| at 2 | bare httputil.ReverseProxy | Unloop, exact detectors | Unloop, default policy |\n| --- | --- | --- | --- |\n| p50 ms | ",
		"| processor ms per request | ", "| allocations per request | ", "| unjudged % | 0.00 | ", "| bytes (writes) to JetStream per request | – | ")
}

// Caddy is left out: it would have to be built.
func TestPeersForwardRequests(t *testing.T) {
	t.Parallel()
	for _, p := range peers {
		variable := map[string]string{"nginx": "UNLOOP_TEST_NGINX", "node-modules": "UNLOOP_TEST_NODE_MODULES"}[p.tool]
		if variable == "" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			tool := os.Getenv(variable)
			if tool == "" {
				t.Skipf("%s is not set", variable)
			}
			b := &bench{dir: t.TempDir()}
			defer func() {
				if err := b.end(); err != nil {
					t.Error(err)
				}
			}()
			upstream, err := b.startRole(t.Context(), originRole)
			if err != nil {
				t.Fatal(err)
			}
			in, err := b.startPeer(t.Context(), p, tool, upstream.url)
			if err != nil {
				t.Fatal(err)
			}
			var body string
			got, err := dial(in, chatPath).post("sk-test", []byte(`{"model":"m","messages":[{"role":"user","content":"Hello."}]}`), func(line []byte) { body += string(line) })
			if err != nil || got.status != http.StatusOK || !strings.Contains(body, "Hello!") {
				t.Errorf("got %d %q, %v", got.status, body, err)
			}
		})
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	out := output(t, "-streams", "2", "-pause", "1ms", "stream")
	mustContain(t, out, "streams of 50 chunks, one every 1ms", "| first chunk after ms, p50 | ", "| delay of a chunk in ms, p99 | ",
		"2 open streams, ", "| KiB of memory for each stream | ")
}

func TestSessionsWithStreamedAnswers(t *testing.T) {
	t.Parallel()
	out := output(t, "-sessions", "generated", "-calls", "2", "-levels", "1,2", "-chunks", "3,5", "sessions-streamed")
	mustContain(t, out, "sessions, answers of 3 chunks, one every 0s", "sessions, answers of 5 chunks, one every 8ms",
		"| at 1 / 2 | bare httputil.ReverseProxy | Unloop, default policy |", "| processor ms per request | ")
	if strings.Contains(out, "did not succeed") || strings.Contains(out, "operations failed") {
		t.Errorf("requests failed:\n%s", out)
	}
}

func TestAnotherBinaryIsMeasuredBesideThisOne(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "unloop")
	if err := os.WriteFile(other, []byte("#!/bin/sh\nexec '"+self+"' "+unloopRole+" \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	out := output(t, "-sessions", "generated", "-calls", "10", "-levels", "1", "-against", other, "sessions-proxy")
	mustContain(t, out, "| Unloop, default policy, other binary |", "| at 1 | Unloop, exact detectors | Unloop, default policy |\n| --- | --- | --- |\n| p50 ms | ")
}

func TestChecksAndShortPrompts(t *testing.T) {
	t.Parallel()
	out := output(t, "-calls", "100", "-levels", "2", "check", "detectors", "blocked", "beside")
	mustContain(t, out, "| at 2 | NATS echo | Unloop check over NATS | Unloop check, in process |", "| operations/s | ",
		"| at 2 | detectors: 1 | detectors: 2 | detectors: 4 |", "| at 2 | bare Go handler, 429 | Unloop, blocked loops |", "| at 2 | empty callout | Unloop, callout |\n| --- | --- | --- |\n| operations/s | ")
	if strings.Contains(out, "operations failed") {
		t.Errorf("requests failed:\n%s", out)
	}
}

func TestProcessesOfAClusterAreMeasured(t *testing.T) {
	t.Parallel()
	out := output(t, "-sessions", "generated", "-calls", "70", "-rates", "200", "cluster")
	mustContain(t, out, "processor time of processes, at 200 requests/s", "processor time of processes, as fast as requests are answered",
		"| at 64 | one server, one replica | three servers, three replicas, TLS | the same, four partitions |", "| unjudged % | 0.00 | 0.00 | 0.00 |",
		"| processor ms per request of nats-3 | – | 0.",
		"| processor ms per request of nats | 0.", "| processor ms per request of gateway | ")
}

func TestFlagsThatAreWrongAreErrors(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"nothing"}, {"-levels", "1,0", "sessions"}, {"-rates", "0", "cluster"}, {"-sessions", "nowhere.jsonl", "sessions"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q is no error", args)
		}
	}
}

func TestScansAreMeasured(t *testing.T) {
	t.Parallel()
	mustContain(t, output(t, "scan"), "| MB/s a core |", "\n| unloop | ")
}
