package cli

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/deploy/replay"
	"github.com/unloop/unloop/deploy/replay/logs"
	"github.com/unloop/unloop/embedworker"
)

func TestTextListsAtMostSoMany(t *testing.T) {
	t.Parallel()
	report := reportOn(t, 5, 7)
	var few, all bytes.Buffer
	printReport(&printer{w: &few}, report, 2)
	printReport(&printer{w: &all}, report, math.MaxInt)
	if n := strings.Count(few.String(), "day.jsonl:1 request"); n != 3*2 || !strings.Contains(few.String(), "3 more incidents") {
		t.Errorf("%d places in:\n%s", n, few.String())
	}
	if n := strings.Count(all.String(), "day.jsonl:1 request"); n != 3*5 || strings.Contains(all.String(), "more") {
		t.Errorf("%d places in:\n%s", n, all.String())
	}
	for _, want := range []string{"35 requests in 5 sessions of 1 file", "allow 25", "reject 10", "10 requests, 11 000 of 38 500 tokens", "38 500 tokens (without prices)"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no %q in:\n%s", want, all.String())
		}
	}
}

// reportOn returns the report on sessions that each send one prompt so many times, a
// second apart.
func reportOn(t *testing.T, sessions, times int) *replay.Report {
	t.Helper()
	embedder := embedworker.DefaultConfig()
	embedder.Embedder = "lexical"
	run, err := replay.New(t.Context(), replay.Config{Embedworker: embedder, Pace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for session := range sessions {
		for i := range times {
			body := fmt.Appendf(nil, `{"model":"gpt-x","messages":[{"role":"user","content":"prompt %d"}]}`, session)
			q := logs.Request{
				Source: logs.Recording, Line: 1, Time: time.Unix(int64(session*times+i), 0), Method: "POST", Path: "/v1/chat/completions",
				Caller: "c0ffee", Session: fmt.Sprint("s", session), Model: "gpt-x", Body: body,
				Outcome: logs.Outcome{Status: 200, InputTokens: 1000, OutputTokens: 100},
			}
			if err := run.Request(t.Context(), "day.jsonl", &q); err != nil {
				t.Fatal(err)
			}
		}
	}
	return run.Report()
}
