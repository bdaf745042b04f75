package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const printed = `{"Action":"output","Package":"x/a","Test":"TestGood","Output":"    a_test.go:1: said nothing of use\n"}
{"Action":"pass","Package":"x/a","Test":"TestGood"}
{"Action":"output","Package":"x/a","Test":"TestBad","Output":"    a_test.go:2: got 1\n"}
{"Action":"fail","Package":"x/a","Test":"TestBad"}
{"Action":"output","Package":"x/a","Test":"TestLeft","Output":"=== RUN   TestLeft\n"}
{"Action":"output","Package":"x/a","Test":"TestLeft","Output":"    a_test.go:3: Redis is not installed\n"}
{"Action":"output","Package":"x/a","Test":"TestLeft","Output":"--- SKIP: TestLeft (0.00s)\n"}
{"Action":"skip","Package":"x/a","Test":"TestLeft"}
{"Action":"output","Package":"x/hung","Test":"TestHung","Output":"panic: test timed out after 10m0s\n"}
{"Action":"output","Package":"x/hung","Output":"FAIL\tx/hung\t600s\n"}
{"Action":"fail","Package":"x/hung"}
{"Action":"output","Package":"x/a","Output":"PASS\n"}
{"Action":"output","Package":"x/a","Output":"ok  \tx/a\t0.1s\n"}
not an event
`

func TestWhatIsShownOfARun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	got, err := show(strings.NewReader(printed), &out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("    a_test.go:2: got 1\nFAIL\tx/hung\t600s\npanic: test timed out after 10m0s\nok  \tx/a\t0.1s\nnot an event\n", out.String()); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
	if len(got.skips) != 1 || got.skips[0] != (skip{"a.TestLeft", "Redis is not installed"}) {
		t.Errorf("skipped %v, want TestLeft with its reason", got.skips)
	}
}

const broken = `{"Action":"output","Package":"x/a","Test":"TestAll/one","Output":"    a_test.go:2: got 1\n"}
{"Action":"fail","Package":"x/a","Test":"TestAll/one"}
{"Action":"output","Package":"x/a","Test":"TestAll","Output":"--- FAIL: TestAll (0.00s)\n"}
{"Action":"fail","Package":"x/a","Test":"TestAll"}
{"Action":"output","Package":"x/a","Output":"FAIL\tx/a\t0.1s\n"}
{"Action":"fail","Package":"x/a"}
{"Action":"output","Package":"x/b","Output":"panic: test timed out after 10m0s\n"}
{"Action":"fail","Package":"x/b"}
{"ImportPath":"x/c [x/c.test]","Action":"build-output","Output":"x/c/c.go:3:1: undefined: y\n"}
{"ImportPath":"x/c [x/c.test]","Action":"build-fail"}
{"Action":"output","Package":"x/c","Output":"FAIL\tx/c [build failed]\n"}
{"Action":"fail","Package":"x/c","FailedBuild":"x/c [x/c.test]"}
`

// Failed tests, packages that ended by themselves and packages that did not build are named
// and shown once more.
func TestFailuresAreKept(t *testing.T) {
	t.Parallel()
	got, err := show(strings.NewReader(broken), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "failures")
	if err := appendFailures(file, got.failures); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "=== a.TestAll/one\n    a_test.go:2: got 1\n=== b\npanic: test timed out after 10m0s\n=== c\nx/c/c.go:3:1: undefined: y\nFAIL\tx/c [build failed]\n"
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	var out strings.Builder
	if err := nameFailures(file, &out); err != nil || out.String() != "failed: 3: a.TestAll/one; b; c\n" {
		t.Errorf("named %q, %v", out.String(), err)
	}
}

func TestSkippedTestsAreNamedAndHeldAgainstTheList(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		skips        []skip
		list         string
		line, refuse string
	}{
		"nothing":         {line: "skipped: nothing\n"},
		"on the list":     {skips: []skip{{"a.TestLeft", "why"}}, list: "# why\na.TestLeft\n", line: "skipped: 1: a.TestLeft (why)\n"},
		"a pattern":       {skips: []skip{{"a.TestLeft/one/two", "why"}}, list: "a.TestLeft*\n", line: "skipped: 1: a.TestLeft/one/two (why)\n"},
		"not on the list": {skips: []skip{{"a.TestLeft", "why"}}, list: "b.*\n", line: "skipped: 1: a.TestLeft (why)\n", refuse: "a.TestLeft"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file, list := filepath.Join(dir, "skips"), filepath.Join(dir, "allowed")
			if err := appendSkips(file, tt.skips); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(list, []byte(tt.list), 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err := summarize(file, list, &out)
			if out.String() != tt.line {
				t.Errorf("said %q, want %q", out.String(), tt.line)
			}
			if (err == nil) != (tt.refuse == "") || err != nil && !strings.Contains(err.Error(), tt.refuse) {
				t.Errorf("error %v, want one that names %q", err, tt.refuse)
			}
		})
	}
}
