package compare_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/embedworker/internal/compare"
	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/schemas/details"
)

// threshold is the default of a policy.
const threshold = 0.95

func subject(tb testing.TB, e embed.Embedder, s side) compare.Subject {
	tb.Helper()
	_, texts := details.Read(s.said, s.answered)
	if s.answered == "" {
		texts = texts[:1]
	}
	v, err := e.Embed(context.Background(), texts...)
	if err != nil {
		tb.Fatal(err)
	}
	return compare.Subject{Halves: v, Details: details.Of(s.said + "\n" + s.answered)}
}

func TestSimilarityIsTheSources(t *testing.T) {
	t.Parallel()
	for distance, want := range map[float64]float64{0: 1, 0.1: 0.95, 1: 0.5, 2: 0, -0.001: 1, 2.5: 0} {
		if got := compare.FromDistance(distance); math.Abs(got-want) > 1e-12 {
			t.Errorf("distance %g: similarity %g, want %g", distance, got, want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	past := func(similarities ...float64) (history []compare.Past) {
		for _, s := range similarities {
			history = append(history, compare.Past{Similarity: s, SameDetails: true})
		}
		return history
	}
	otherMarks := []compare.Past{{Similarity: 0.99}, {Similarity: 0.6, SameDetails: true}}
	for name, c := range map[string]struct {
		history []compare.Past
		rule    compare.Rule
		want    compare.Result
	}{
		"one of two above":                 {past(.97, .5), compare.Rule{Threshold: .95, MinMatches: 1}, compare.Result{Detected: true, MaxSimilarity: .97, Matches: []int{0}}},
		"none above":                       {past(.5), compare.Rule{Threshold: .95, MinMatches: 1}, compare.Result{MaxSimilarity: .5}},
		"the threshold itself":             {past(.95), compare.Rule{Threshold: .95, MinMatches: 1}, compare.Result{MaxSimilarity: .95}},
		"too few matches":                  {past(.97, .5), compare.Rule{Threshold: .95, MinMatches: 2}, compare.Result{MaxSimilarity: .97, Matches: []int{0}}},
		"enough matches":                   {past(.96, .5, .98), compare.Rule{Threshold: .95, MinMatches: 2}, compare.Result{Detected: true, MaxSimilarity: .98, Matches: []int{0, 2}}},
		"no history":                       {nil, compare.Rule{Threshold: .95}, compare.Result{}},
		"no least number means one":        {past(.97), compare.Rule{Threshold: .95}, compare.Result{Detected: true, MaxSimilarity: .97, Matches: []int{0}}},
		"other numbers are not compared":   {otherMarks, compare.Rule{Threshold: .95}, compare.Result{MaxSimilarity: .6}},
		"unless the rule asks for no care": {otherMarks, compare.Rule{Threshold: .95, AnyDetails: true}, compare.Result{Detected: true, MaxSimilarity: .99, Matches: []int{0}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, compare.Decide(c.history, c.rule)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBothHalvesMustBeSimilar(t *testing.T) {
	t.Parallel()
	x, y := []float32{1, 0}, []float32{0, 1}
	for name, c := range map[string]struct {
		a, b [][]float32
		want float64
	}{
		"the same":             {[][]float32{x, y}, [][]float32{x, y}, 1},
		"another answer":       {[][]float32{x, y}, [][]float32{x, x}, .5},
		"another question":     {[][]float32{x, y}, [][]float32{y, y}, .5},
		"no answer, twice":     {[][]float32{x, nil}, [][]float32{x, nil}, 1},
		"no answer, then one":  {[][]float32{x, nil}, [][]float32{x, y}, 0},
		"a text, an exchange":  {[][]float32{x}, [][]float32{x, y}, 0},
		"vectors of two kinds": {[][]float32{x}, [][]float32{{1, 0, 0}}, 0},
	} {
		if got := similarity(compare.Subject{Halves: c.a}, compare.Subject{Halves: c.b}); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}

func TestNearRepeatsAreFoundAndHonestPairsAreNot(t *testing.T) {
	t.Parallel()
	if len(nearRepeats) < 40 || len(honestPairs) < 40 {
		t.Fatalf("the table has %d and %d pairs", len(nearRepeats), len(honestPairs))
	}
	e := embed.NewLexical()
	for _, p := range nearRepeats {
		if s, same := score(t, e, p); s <= threshold || !same {
			t.Errorf("missed at %.3f (same marks: %v): %s | %s", s, same, p.a, p.b)
		}
	}
	for _, p := range honestPairs {
		if s, same := score(t, e, p); s > threshold && same {
			t.Errorf("found at %.3f: %s | %s", s, p.a, p.b)
		}
	}
}

func similarity(a, b compare.Subject) float64 {
	halves := make([]compare.Plain, len(b.Halves))
	for i, h := range b.Halves {
		halves[i] = h
	}
	return compare.Similarity(a, halves)
}

func score(tb testing.TB, e embed.Embedder, p pair) (float64, bool) {
	tb.Helper()
	a, b := subject(tb, e, p.a), subject(tb, e, p.b)
	return similarity(a, b), a.Details == b.Details
}

// TestAPromptThatGrowsByItsOwnRetryIsFound is the classic loop: each call sends
// the complaint and the whole prompt before it.
func TestAPromptThatGrowsByItsOwnRetryIsFound(t *testing.T) {
	t.Parallel()
	for _, prompt := range []string{invoicePrompt, "Name three rivers as JSON.", "Hi", strings.Repeat(invoicePrompt+" ", 40)} {
		e := embed.NewLexical()
		var history []compare.Subject
		first := 0
		for call := 1; call <= 12; call++ {
			s := subject(t, e, side{said: prompt})
			if compare.Decide(compared(s, history), compare.Rule{Threshold: threshold, MinMatches: 2}).Detected && first == 0 {
				first = call
			}
			history = append([]compare.Subject{s}, history...)[:min(5, len(history)+1)]
			prompt = "That wasn't valid JSON. Try again: " + prompt
		}
		// Eight findings in a row, the eighth at the twelfth call at the latest.
		if first == 0 || first > 5 {
			t.Errorf("%.30q: first found at call %d, want 5 at the latest", prompt, first)
		}
	}
}

func compared(s compare.Subject, history []compare.Subject) (past []compare.Past) {
	for _, h := range history {
		past = append(past, compare.Past{Similarity: similarity(s, h), SameDetails: s.Details == h.Details})
	}
	return past
}
