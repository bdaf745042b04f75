package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/internal/replay"
	"github.com/unloop/unloop/deploy/internal/rerun"
	"github.com/unloop/unloop/deploy/internal/system"
)

// What a gateway did is what the replay of its recording says it would do.
func TestReplayOfARecordingDecidesAsTheGatewayDid(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "traffic.jsonl")
	upstream := serve(t, greeting)
	s, stop := startStoppable(t, upstream.url, func(c *system.Config) { c.Gateway.Record = name })
	did := map[string]int{}
	note := func(a answered) {
		action := a.header.Get("X-Loop-Action")
		if action == "" {
			action = "allow"
		}
		did[action]++
	}
	for i := range 9 {
		note(send(t, s.URL(), prompt("the same again")))
		note(send(t, s.URL(), prompt(fmt.Sprint("something else ", i))))
		named := chat(toolSession(i, func(int) string { return `{"path":"a.go"}` }, always("package main")))
		note(send(t, s.URL(), named.with("X-Session-Id", "agent 7")))
	}
	stop()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("sk-")) || bytes.Contains(text, []byte("agent 7")) {
		t.Error("the recording has a key or a session's own name")
	}
	run, err := rerun.New(rerun.Config{Pace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for q, err := range rerun.InOrder(replay.Open(bytes.NewReader(text), replay.Options{})) {
		if err == nil {
			err = run.Request(t.Context(), name, &q)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	report := run.Report()
	if diff := cmp.Diff(did, report.Actions); diff != "" || did["reject"] == 0 || did["hint"] == 0 {
		t.Errorf("actions (-gateway +replay):\n%s", diff)
	}
	if report.Requests != 27 || report.Saved.Requests != did["reject"] {
		t.Errorf("%d requests, of which %d would have been stopped", report.Requests, report.Saved.Requests)
	}
}
