package e2e

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/embedworker/realparts"
	"github.com/unloop/unloop/schemas"
)

// verdictOf is what an answer says of a finding.
func verdictOf(a answered) string {
	return fmt.Sprint(a.status, " ", a.header.Get("X-Loop-Action"), " ", a.header.Get("X-Loop-Count"))
}

func TestTextThatWasAskedAboutIsRememberedOnce(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(*testing.T) func(*system.Config){
		"kv": func(*testing.T) func(*system.Config) { return func(*system.Config) {} },
		"redis": func(t *testing.T) func(*system.Config) {
			url := realparts.Redis(t).URL()
			return func(cfg *system.Config) { cfg.Embedworker.VectorStore, cfg.Embedworker.Redis = "redis", url }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t, echo(t), policies(t, meaning), store(t)).URL()
			var got []string
			for i := range wordings {
				d := decide(t, url, about(said(i), ""))
				a := send(t, url, said(i).with("X-Unloop-Check", d.RequestID))
				got = append(got, fmt.Sprint(d.Action, " ", len(d.Findings)), verdictOf(a))
			}
			want := []string{"allow 0", "200  ", "hint 1", "200 hint 1", "hint 1", "200 hint 2"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("each asked about, then sent (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOneQuestionAboutATextCoversOneRequest(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, meaning)).URL()
	d := decide(t, url, about(said(0), ""))
	sent := said(0).with("X-Unloop-Check", d.RequestID)
	var got []string
	for range 3 {
		got = append(got, verdictOf(send(t, url, sent)))
	}
	if diff := cmp.Diff([]string{"200  ", "200 hint 1", "200 hint 2"}, got); diff != "" {
		t.Errorf("one check's id for ever (-want +got):\n%s", diff)
	}
	traced := about(said(1).with("X-Session-ID", "other").with("X-Request-ID", "trace"), "")
	for i, want := range []string{"allow", "hint"} {
		if d := decide(t, url, traced); d.Action != want {
			t.Errorf("question %d of one X-Request-ID: %s, want %s", i+1, d.Action, want)
		}
	}
	decide(t, url, about(said(1).with("X-Session-ID", "third"), ""))
	if a := send(t, url, said(1).with("X-Session-ID", "third")); verdictOf(a) != "200 hint 1" {
		t.Errorf("a request that names no check: %s", verdictOf(a))
	}
}

// A call that the upstream refused may be made again, at most twice for each
// one that counts. A hint that it had is given again, since no model got it.
func TestReplayOfARefusedCallIsNoSemanticLoop(t *testing.T) {
	t.Parallel()
	s := start(t, serve(t, missing503).url, policies(t, meaning))
	await := watchBucket(t, s, schemas.BucketSessions)
	var got []string
	for range 5 {
		got = append(got, verdictOf(send(t, s.URL(), said(0))))
		await(`"open":true`)
	}
	want := []string{"503  ", "503  ", "503  ", "503 hint 1", "503 hint 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("one call that fails each time (-want +got):\n%s", diff)
	}
	if a := send(t, s.URL(), said(1)); verdictOf(a) != "503 hint 2" {
		t.Errorf("the same in other words: %s, want it to be no replay", verdictOf(a))
	}
}

func TestRepeatedIdempotencyKeyIsNoSemanticLoop(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, meaning)).URL()
	var got []string
	for range 4 {
		got = append(got, verdictOf(send(t, url, said(0).with("Idempotency-Key", "k"))))
	}
	got = append(got, verdictOf(send(t, url, said(0).with("Idempotency-Key", "another"))))
	if diff := cmp.Diff([]string{"200  ", "200  ", "200  ", "200 hint 1", "200 hint 2"}, got); diff != "" {
		t.Errorf("one key four times, then another (-want +got):\n%s", diff)
	}
}

func TestCheckedReplayOfARefusedCallIsNoSemanticLoop(t *testing.T) {
	t.Parallel()
	s := start(t, serve(t, missing503).url, policies(t, meaning))
	await := watchBucket(t, s, schemas.BucketSessions)
	for n := range 3 {
		d := decide(t, s.URL(), about(said(0), ""))
		a := send(t, s.URL(), said(0).with("X-Unloop-Check", d.RequestID))
		if d.Action != "allow" || verdictOf(a) != "503  " {
			t.Errorf("call %d: asked %s, sent %s", n+1, d.Action, verdictOf(a))
		}
		await(`"open":true`)
	}
	if d := decide(t, s.URL(), about(said(0), "")); d.Action != "hint" {
		t.Errorf("the fourth: %s", d.Action)
	}
}

// The hint comes with the third that counts, as it would without failures.
func TestReplaysBringNoHintSooner(t *testing.T) {
	t.Parallel()
	s := start(t, serve(t, missing503).url, policies(t, standard))
	await := watchBucket(t, s, schemas.BucketSessions)
	var got []string
	for range 3 {
		got = append(got, verdictOf(send(t, s.URL(), said(0))))
		await(`"open":true`)
	}
	for _, c := range []call{said(1), said(2), prompt(reworded).with("X-Session-ID", "s")} {
		got = append(got, verdictOf(send(t, s.URL(), c)))
	}
	want := []string{"503  ", "503  ", "503  ", "503  ", "503  ", "503 hint 2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("two replays, then other words (-want +got):\n%s", diff)
	}
}
