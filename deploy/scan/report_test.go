package scan

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"

	"github.com/unloop/unloop/deploy/scan/agents"
	"github.com/unloop/unloop/schemas/policy"
)

// scanned scans the sessions of Claude Code and opencode.
func scanned(t *testing.T, cfg Config) *Report {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"claude", "opencode"} {
		recordings[name].write(t, filepath.Join(home, recordings[name].path))
	}
	files, err := At(home, cfg.Since)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Files(t.Context(), files, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReportAddsUpWhatLoopsCost(t *testing.T) {
	t.Parallel()
	r := scanned(t, config())
	if r.Sessions != 2 || r.Looped != 2 || r.Hinted != 2 || r.Stopped != 2 || r.Unreadable != 1 || len(r.Agents) != 2 {
		t.Errorf("report %+v", r)
	}
	if r.Spent.Requests != 2*(rounds+1) || r.Spent.InputTokens != 2*(rounds+1)*1000 || r.Spent.USD == 0 || r.Spent.Estimated != 0 {
		t.Errorf("spent %+v", r.Spent)
	}
	if r.Wasted.Requests != 12 || r.Saved.Requests != 8 || r.Wasted.USD <= r.Saved.USD || r.WastedSeconds < 100 {
		t.Errorf("wasted %+v in %g s, saved %+v", r.Wasted, r.WastedSeconds, r.Saved)
	}
}

// Anthropic's prices for a million tokens of claude-sonnet-4-5: 3 dollars, 0.30 from a cache, 3.75
// to one for five minutes and 6 for an hour, and 15 for the answer.
func TestCacheWritesHaveTheirPrices(t *testing.T) {
	t.Parallel()
	const answer = `{"parentUuid":null,"type":"assistant","sessionId":"s","message":{"id":"m","model":"claude-sonnet-4-5-20250929","content":"Yes.","usage":` +
		`{"input_tokens":1000,"cache_read_input_tokens":10000,"cache_creation_input_tokens":5000,"cache_creation":{"ephemeral_5m_input_tokens":3000,"ephemeral_1h_input_tokens":2000},"output_tokens":100}}}`
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "s.jsonl"), `{"parentUuid":null,"type":"user","sessionId":"s","message":{"content":"Is it?"}}`+"\n"+answer)
	r := at(t, folder)
	want := (1000*3 + 10000*0.3 + 3000*3.75 + 2000*6 + 100*15) / 1e6
	if got := r.Spent; math.Abs(got.USD-want) > 1e-9 || got.InputTokens != 16000 {
		t.Errorf("spent %+v, want %g dollars", got, want)
	}
}

func TestEarlierRequestsAreLeftOut(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Since = time.Date(2026, 3, 2, 9, 1, 0, 0, time.UTC)
	files := []File{{Path: filepath.Join(t.TempDir(), "0d1c.jsonl"), Agent: agents.All[0]}}
	recordings["claude"].write(t, files[0].Path)
	r, err := Files(t.Context(), files, cfg)
	if err != nil || r.Spent.Requests >= rounds {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestPageStandsAloneAndMasksPeople(t *testing.T) {
	t.Parallel()
	r := scanned(t, config())
	l := r.Loops[0]
	l.Shown.Prompt = `Mail ada@example.org about C:\Users\ada\shop and /home/ada/shop. <script>alert(1)</script>`
	l.Shown.Rounds[0].Result = "in /srv/own/secret-project"
	var page bytes.Buffer
	if err := WritePage(&page, r, Masking{Home: "/srv/own"}); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, want := range []string{"npm test", "1 failed: cart", "Claude Code: 1 of 1", "unloop exec -- claude", "…@…", "&lt;script&gt;", `\Users\…`, "~/secret-project", "stopped at request 6"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	for _, private := range []string{"ada@", "/home/ada", `Users\ada`, "/srv/own", "<script>alert", "src=", "http"} {
		if strings.Contains(strings.ReplaceAll(text, "http-equiv", ""), private) {
			t.Errorf("%q is on the page", private)
		}
	}
	page.Reset()
	if err := WritePage(&page, r, Masking{Off: true}); err != nil || !strings.Contains(page.String(), "ada@example.org") {
		t.Errorf("with --raw: %v", err)
	}
}

func TestTwoBundlesAreComparedBySession(t *testing.T) {
	t.Parallel()
	strict := config()
	strict.Policies = filepath.Join(t.TempDir(), "strict.yaml")
	writeFile(t, strict.Policies, "bundle_version: 1\npolicies: [{id: p, spec: {tool: {escalation: [{at: 2, action: reject}]}}}]\n")
	home := t.TempDir()
	recordings["claude"].write(t, filepath.Join(home, recordings["claude"].path))
	files, err := At(home, strict.Since)
	if err != nil {
		t.Fatal(err)
	}
	var reports []*Report
	for _, cfg := range []Config{config(), strict} {
		r, err := Files(t.Context(), files, cfg)
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, r)
	}
	if all := Compare(reports[0], reports[0]); len(all) != 0 {
		t.Errorf("a bundle differs from itself: %+v", all)
	}
	all := Compare(reports[0], reports[1])
	want := []Change{{Session: "0d1c.jsonl#0d1c", File: files[0].Path, One: Did{4, 4, 6}, Other: Did{3, 6, 3}}}
	if diff := cmp.Diff(want, all); diff != "" || all[0].One.String() != "stops at 6" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// Thresholds are searched on one half of the sessions, and the bundle says why it has them.
func TestTuneSearchesThresholds(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	labels := Labels{}
	for i := range 6 {
		name := fmt.Sprintf("%02d.jsonl", i)
		polls := strings.NewReplacer(`"is_error":true`, `"is_error":false`, "1 failed: cart", "2 of 9 orders were sent so far", "npm test", "shop orders")
		writeFile(t, filepath.Join(home, name), strings.ReplaceAll(polls.Replace(strings.Join(claudeLines(), "\n")), "msg_", fmt.Sprint("msg_", i)))
		verdict := Honest // a person says that eight equal looks are work
		if i < 2 {
			verdict = Unsure
		}
		labels[place{filepath.Join(home, name), name + "#0d1c"}] = Label{File: name, Session: name + "#0d1c", Verdict: verdict}
	}
	files, err := At(home, Config{}.Since)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := policy.Default(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	tuned, err := Tune(t.Context(), files, labels, bundle, config())
	if err != nil {
		t.Fatal(err)
	}
	if tuned.Before.FalselyStopped == 0 || tuned.After.FalselyStopped > tuned.Before.FalselyStopped || len(tuned.Adopted) == 0 {
		t.Fatalf("before %s, after %s, adopted %+v", tuned.Before, tuned.After, tuned.Adopted)
	}
	first := tuned.Adopted[0]
	reason := fmt.Sprintf("# default: %s %g, was %g. Before: ", first.Setting, first.To, first.From)
	if !strings.HasPrefix(tuned.Bundle, reason) || len(first.Changes) == 0 {
		t.Errorf("no %q in\n%.300s", reason, tuned.Bundle)
	}
	if len(tuned.Warnings) != 2 || !strings.Contains(tuned.Warnings[0], "no stuck session") {
		t.Errorf("without a stuck session: %q", tuned.Warnings)
	}
	if _, err := policy.Parse([]byte(tuned.Bundle)); err != nil {
		t.Errorf("the bundle can't be read: %v", err)
	}
}

// What can't be read is counted, in each format, and the rest is as if it were not there.
func TestBrokenEntriesAreSkippedAndCounted(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(t *testing.T, path string){
		"codex": appendBroken, "gemini": appendBroken, "copilot": appendBroken,
		"claude": func(t *testing.T, path string) { // which has one, here cut off before its message
			t.Helper()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, path, strings.Replace(string(text), `{"message":{"broken`, `{"type":"us`, 1))
		},
		"opencode": func(t *testing.T, path string) {
			t.Helper()
			db, err := sqlite3.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(db.Exec("INSERT INTO message VALUES ('ses_1m_0x', 'ses_1', 0, 0, '{broken')"), db.Close()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			path := filepath.Join(folder, recordings[name].path)
			recordings[name].write(t, path)
			broken(t, path)
			r := at(t, folder)
			if r.Unreadable != 1 || r.Looped != 1 || r.Spent.Requests != rounds+1 || r.Loops[0].Did.Stopped != 6 {
				t.Errorf("%+v", r)
			}
		})
	}
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "opencode.db"), "SQLite format 3\x00, and no database")
	writeStorage(t, folder, "ses_1")
	message := filepath.Join(folder, "storage/message/ses_1/ses_1m_0x.json")
	writeFile(t, message, `{"role":`)
	if r := at(t, folder); r.Unreadable != 2 || r.Looped != 1 {
		t.Errorf("a broken database, and a broken message: %+v", r)
	}
}

// appendBroken puts a line that was cut off into the middle of a file.
func appendBroken(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	writeFile(t, path, strings.Join(lines[:8], "")+lines[8][:len(lines[8])/2]+"\n"+strings.Join(lines[8:], ""))
}

// Each byte of the files is reported once, so that a progress bar ends where it should. The bytes
// of a long file are reported while its requests are evaluated.
func TestProgressComesToItsEnd(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	var size, read int64
	for _, name := range []string{"claude", "codex", "swe-agent"} {
		recordings[name].write(t, filepath.Join(home, recordings[name].path))
	}
	recordings["claude"].write(t, filepath.Join(home, "copy.jsonl")) // which is read twice
	writeFile(t, filepath.Join(home, "long.jsonl"), longSession("long", 100, 2000))
	files, err := At(home, Config{}.Since)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		size += f.Size
	}
	cfg := config()
	var mu sync.Mutex
	moves := 0
	cfg.Progress = func(n int64) {
		mu.Lock()
		defer mu.Unlock()
		read += n
		moves++
	}
	if _, err := Files(t.Context(), files, cfg); err != nil || read != size {
		t.Errorf("%d of %d bytes, %v", read, size, err)
	}
	if moves < 100 {
		t.Errorf("progress moved %d times", moves)
	}
}

// A file that is one value is evaluated request by request, and so told of.
func TestProgressMovesWithinOneValue(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(*testing.T, string){"swe.traj": recordings["swe-agent"].write, "openhands.json": recordings["openhands"].write, "messages.json": func(t *testing.T, path string) {
		t.Helper()
		var list []string
		for i := range rounds {
			list = append(list, fmt.Sprintf(`{"role":"user","content":"again %d"}`, i), `{"role":"assistant","content":"done"}`)
		}
		writeFile(t, path, `{"messages":[`+strings.Join(list, ",\n")+`]}`)
	}} {
		path := filepath.Join(t.TempDir(), name)
		write(t, path)
		files, err := At(path, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		var moves []int64
		cfg := config()
		cfg.Progress = func(n int64) { moves = append(moves, n) }
		if _, err := Files(t.Context(), files, cfg); err != nil || len(moves) < rounds || slices.Max(moves) > files[0].Size/2 {
			t.Errorf("%s: progress moved by %v of %d bytes, %v", name, moves, files[0].Size, err)
		}
	}
}
