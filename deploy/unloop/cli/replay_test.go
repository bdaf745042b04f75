package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// recordingOf writes a recording of one prompt that is repeated every second.
func recordingOf(t *testing.T, times int) string {
	t.Helper()
	var text strings.Builder
	for i := range times {
		fmt.Fprintf(&text, `{"unloop":1,"time":"2026-05-22T12:00:%02dZ","caller":"c0ffee","method":"POST","path":"/v1/chat/completions",`+
			`"body":{"model":"m","messages":[{"role":"user","content":"again"}]},"status":200}`+"\n", i)
	}
	file := filepath.Join(t.TempDir(), "day.jsonl")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestReplayTellsWhatWouldHaveBeenStopped(t *testing.T) {
	t.Parallel()
	file := recordingOf(t, 8)
	code, out, errOut := command(t, "replay", file)
	if code != 0 || errOut != "" {
		t.Fatalf("exit code %d, %q on the error stream; want no progress bar where there is no terminal", code, errOut)
	}
	for _, want := range []string{"8 requests", "allow 5", "reject 3", "3 requests,", "day.jsonl:6 request 6", "prompt", "8 times within 60 s"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

func TestReplayPrintsJSON(t *testing.T) {
	t.Parallel()
	_, out, _ := command(t, "replay", "--json", recordingOf(t, 8), recordingOf(t, 2))
	var report struct {
		Files, Requests int
		Saved           struct{ Requests int }
		Incidents       []struct{ Detectors []string }
		Flagged         []struct{ Stopped int } `json:"flagged_sessions"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v in:\n%s", err, out)
	}
	if report.Files != 2 || report.Requests != 10 || report.Saved.Requests < 3 || len(report.Incidents) == 0 || len(report.Flagged) != 1 {
		t.Errorf("report %+v", report)
	}
}

func TestReplayFollowsABundle(t *testing.T) {
	t.Parallel()
	bundle := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(bundle, []byte("{bundle_version: 1, policies: [{id: lax, spec: {prompt: {max_hits: 100}}}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := command(t, "replay", "--policies", bundle, recordingOf(t, 8)); !strings.Contains(out, "Nothing would have fired") {
		t.Errorf("a lax bundle finds something:\n%s", out)
	}
}

func TestReplayAppliesOverridesOfAFile(t *testing.T) {
	t.Parallel()
	one := `{"action":"block","scope":"caller","value":"c0ffee","reason":"runaway","created_at":"2026-05-22T12:00:03Z","expires_at":"2026-05-22T12:00:06Z"}`
	for name, text := range map[string]string{"a list": "[" + one + "]", "one a line": one + "\n" + strings.Replace(one, "c0ffee", "other", 1) + "\n"} {
		file := filepath.Join(t.TempDir(), "overrides.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, out, errOut := command(t, "replay", "--overrides", file, recordingOf(t, 8))
		for _, want := range []string{"refuse 3, allow 5", "block", "runaway"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in:\n%s%s", name, want, out, errOut)
			}
		}
	}
}

func TestReplaySaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	half := write("half.jsonl", "{\"unloop\":1,\"method\":\"POST\",\"path\":\"/v1/chat/completions\",\"body\":{\"messages\":[]}}\n{\"unloop\":1\n")
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"no file":            {[]string{}, 2, []string{"file"}},
		"no such file":       {[]string{filepath.Join(folder, "none")}, 1, []string{"none"}},
		"nothing in it":      {[]string{write("empty", "")}, 1, []string{"no request"}},
		"something else":     {[]string{write("else.json", `{"a":1}`)}, 1, []string{"else.json", "line 1", "no request"}},
		"no bundle":          {[]string{"--policies", filepath.Join(folder, "none"), half}, 1, []string{"none"}},
		"no overrides":       {[]string{"--overrides", filepath.Join(folder, "none"), half}, 1, []string{"--overrides", "none"}},
		"bad overrides":      {[]string{"--overrides", write("o.json", `[{"action":"kill","scope":"user"}]`), half}, 1, []string{"override 1", "action", "scope", "value", "expires_at"}},
		"unknown overrides":  {[]string{"--overrides", write("u.json", `{"acton":"block"}`), half}, 1, []string{"acton"}},
		"negative pace":      {[]string{"--pace=-1s", half}, 1, []string{"--pace"}},
		"an entry is broken": {[]string{half}, 0, []string{"half.jsonl: line 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, errOut := command(t, append([]string{"replay"}, c.args...)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d; %s", code, c.code, errOut)
			}
			for _, want := range c.want {
				if !strings.Contains(errOut, want) {
					t.Errorf("no %q in: %s", want, errOut)
				}
			}
		})
	}
}

func TestBarShowsHowFarItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		bar := newBar(&out, 200, true)
		if _, err := bar.Write(make([]byte, 50)); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second) // it is drawn a few times a second
		bar.Describe("1 request")
		shown := out.String()
		if err := bar.Clear(); err != nil {
			t.Fatal(err)
		}
		cleared := strings.TrimPrefix(out.String(), shown)
		if !strings.Contains(shown, "25%") || !strings.Contains(shown, "1 request") || strings.Trim(cleared, "\r ") != "" || !strings.HasSuffix(cleared, "\r") {
			t.Errorf("%q, then %q", shown, cleared)
		}
		out.Reset()
		unknown := newBar(&out, 0, true)
		unknown.Describe("1 request")
		if err := unknown.Finish(); err != nil || !strings.Contains(out.String(), "1 request") || strings.Contains(out.String(), "%") {
			t.Errorf("%v, %q where the size is not known", err, out.String())
		}
	})
}
