package scan

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLabelsMeasureDetectors(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	session := strings.Join(claudeLines(), "\n")
	writeFile(t, filepath.Join(folder, "a/s.jsonl"), session)
	writeFile(t, filepath.Join(folder, "b/s.jsonl"), strings.ReplaceAll(session, "msg_", "other_"))
	writeFile(t, filepath.Join(folder, "b/quiet.jsonl"), strings.ReplaceAll(strings.Join(claudeLines()[:6], "\n"), "msg_", "quiet_"))
	for _, l := range []Label{
		{Session: "a/s.jsonl#0d1c", Verdict: Wrong},
		{Session: "a/s.jsonl#0d1c", Verdict: Stuck, Stale: 2, Note: "the same failure"},
		{Session: "b/s.jsonl#0d1c", Verdict: Honest}, {Session: "quiet.jsonl#0d1c", Verdict: Right},
	} {
		l, err := InSet(folder, l)
		if err != nil {
			t.Fatal(err)
		}
		if err := Append(folder, l); err != nil {
			t.Fatal(err)
		}
	}
	if err := Append(folder, Label{File: "gone.jsonl", Session: "gone.jsonl#1", Verdict: Honest}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"s.jsonl#0d1c": "a/s.jsonl and b/s.jsonl", "x.jsonl#1": "holds no such file", ".jsonl#1": "holds no such file"} {
		if _, err := InSet(folder, Label{Session: name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	labels, err := LabelsIn([]string{folder, t.TempDir()})
	if err != nil || len(labels) != 4 {
		t.Fatalf("%d labels, %v", len(labels), err)
	}
	scores, unread := Measure(at(t, folder), labels)
	if len(scores) < 2 || scores[0].Detector != "any" || scores[0].Policy != "default" || unread != 1 {
		t.Fatalf("scores %+v, %d unread", scores, unread)
	}
	s := scores[0]
	if s.Found != 1 || s.Stuck != 2 || s.False != 1 || s.Honest != 1 || s.Late.Median != 2 || s.Late.Low != nil || s.Precision.Share != 0.5 || s.Recall.Share != 0.5 {
		t.Errorf("score %+v", s)
	}
	if s.Recall.Low > 0.1 || s.Recall.High < 0.9 {
		t.Errorf("one of two says little: %+v", s.Recall)
	}
	if scores, _ := Measure(newReport(), nil); len(scores) != 1 || scores[0].Recall.High != 1 {
		t.Errorf("of nothing: %+v", scores)
	}
}

func TestFaultyLabelsAreNamed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), LabelsFile)
	for _, bad := range []string{`{"session":"s","verdict":"perhaps"}`, `{"verdict":"right"}`, `{`} {
		writeFile(t, path, "\n"+bad)
		if _, err := ReadLabels(path); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := ReadLabels(path + ".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

// The interval is that of the published example of 9 in 10: 0.596 to 0.982.
func TestWilson(t *testing.T) {
	t.Parallel()
	if i := wilson(9, 10); i.Share != 0.9 || i.Low < 0.595 || i.Low > 0.597 || i.High < 0.981 || i.High > 0.983 {
		t.Errorf("%+v", i)
	}
	if i := wilson(0, 0); i != (Interval{0, 0, 1}) {
		t.Errorf("of nothing: %+v", i)
	}
}

// The ranks are those of tables of the binomial distribution, such as Conover's: 1 and 6 of 6,
// 2 and 9 of 10, 6 and 15 of 20, 40 and 61 of 100.
func TestMediansHaveIntervalsByOrderStatistics(t *testing.T) {
	t.Parallel()
	for n, want := range map[int][2]int{6: {1, 6}, 10: {2, 9}, 20: {6, 15}, 100: {40, 61}} {
		numbers := make([]int, n)
		for i := range numbers {
			numbers[(i*7)%n] = i + 1
			if n%7 == 0 {
				numbers[i] = i + 1
			}
		}
		m := medianOf(numbers)
		if diff := cmp.Diff(want, [2]int{*m.Low, *m.High}); diff != "" {
			t.Errorf("of %d (-want +got):\n%s", n, diff)
		}
	}
	if m := medianOf([]int{3, 1, 2, 5, 4}); m.Median != 3 || m.Low != nil {
		t.Errorf("of five: %+v", m)
	}
	if medianOf(nil) != nil {
		t.Error("none have a median")
	}
}
