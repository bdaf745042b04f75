package compare_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/unloop/unloop/embedworker/internal/embed"
)

var update = flag.Bool("update", false, "write the table")

// page has the scores of single pairs; embed/testdata/scores.md links to it.
const page = "testdata/scores.md"

func TestTheDocumentedScoresAreTrue(t *testing.T) {
	t.Parallel()
	want := "# Scores of the lexical embedder\n\nWritten by `go test ./internal/compare -update`. ⇒ separates the halves of an exchange.\n" + scores(t)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s shows other scores; run go test ./internal/compare -update", page)
	}
}

func scores(tb testing.TB) string {
	tb.Helper()
	e := embed.NewLexical()
	var out strings.Builder
	worst, best := 1.0, 0.0
	out.WriteString("\n| near-repeats | | score |\n|---|---|---|\n")
	for _, p := range nearRepeats {
		s, _ := score(tb, e, p)
		worst = math.Min(worst, s)
		fmt.Fprintf(&out, "| %s | %s | %.3f |\n", p.a, p.b, s)
	}
	out.WriteString("\n| honest pairs | | score |\n|---|---|---|\n")
	for _, p := range honestPairs {
		s, same := score(tb, e, p)
		note := ""
		if !same {
			note = ", told apart by numbers or identifiers"
		} else {
			best = math.Max(best, s)
		}
		fmt.Fprintf(&out, "| %s | %s | %.3f%s |\n", p.a, p.b, s, note)
	}
	fmt.Fprintf(&out, "\nAt the threshold of %.2f the margin is %.3f to the lowest near-repeat (%.3f) and %.3f to the\nhighest honest pair without other numbers or identifiers (%.3f).\n\n",
		threshold, worst-threshold, worst, threshold-best, best)
	return out.String()
}

// String is the side as a cell of the table.
func (s side) String() string {
	text := s.said
	if s.answered != "" {
		text += " ⇒ " + s.answered
	}
	return strings.ReplaceAll(text, "|", "\\|")
}
