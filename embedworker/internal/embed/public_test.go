package embed_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/schemas/details"
)

// publicSets are files of public sets of pairs as they are published, and what their
// lines say. A line may be neither: pairs that people were not sure about.
var publicSets = []struct {
	file  string
	parse func(columns []string) (p pair, ok bool)
}{
	{"msr_paraphrase_test.txt", func(c []string) (pair, bool) {
		if len(c) < 5 {
			return pair{}, false
		}
		return pair{c[0] == "1", c[3], c[4]}, c[0] == "0" || c[0] == "1"
	}},
	{"sts-test.csv", func(c []string) (pair, bool) {
		if len(c) < 7 {
			return pair{}, false
		}
		score, err := strconv.ParseFloat(c[4], 64)
		return pair{score >= 4, c[5], c[6]}, err == nil && (score >= 4 || score < 3)
	}},
	{"SICK_test_annotated.txt", func(c []string) (pair, bool) {
		if len(c) < 5 {
			return pair{}, false
		}
		label := strings.TrimSpace(c[4])
		return pair{label == "ENTAILMENT", c[1], c[2]}, label == strings.ToUpper(label)
	}},
}

// publicPairs reads the sets in the folder that UNLOOP_TEST_PAIRS names; without one,
// our own pairs stand for them.
func publicPairs(t *testing.T) map[string][]pair {
	t.Helper()
	folder := os.Getenv("UNLOOP_TEST_PAIRS")
	if folder == "" {
		t.Log("MEASURED ON OUR OWN PAIRS ALONE: UNLOOP_TEST_PAIRS names no folder with msr_paraphrase_test.txt, sts-test.csv and SICK_test_annotated.txt")
		return map[string][]pair{"our own": pairs(t)}
	}
	sets := map[string][]pair{}
	for _, set := range publicSets {
		body, err := os.ReadFile(filepath.Join(folder, set.file))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(body)) {
			if p, ok := set.parse(strings.Split(strings.TrimRight(line, "\r\n"), "\t")); ok {
				sets[set.file] = append(sets[set.file], p)
			}
		}
	}
	return sets
}

// told scores pairs whose details differ below all others, since they are never
// compared.
func told(score func(a, b string) float64) func(a, b string) float64 {
	return func(a, b string) float64 {
		if details.Of(a) != details.Of(b) {
			return -1
		}
		return score(a, b)
	}
}

// lexicalCosine scores by the lexical embedder; texts without a word are unlike all.
func lexicalCosine(t *testing.T) func(a, b string) float64 {
	t.Helper()
	lexical := embed.NewLexical()
	return func(a, b string) float64 {
		v, err := lexical.Embed(context.Background(), a, b)
		if err != nil {
			return 0
		}
		return embed.Cosine(v[0], v[1])
	}
}

func cosineOf(g *tfidf) func(a, b string) float64 {
	return func(a, b string) float64 { return embed.Cosine(g.embed(a), g.embed(b)) }
}

// On all public pairs together the lexical embedder with details finds at least as many
// paraphrases as runs of three characters do, and as words do, weighed by their rarity.
func TestLexicalIsNoWorseThanTFIDFOnPublicPairs(t *testing.T) {
	t.Parallel()
	var all []pair
	for name, pairs := range publicPairs(t) {
		compareWithTFIDF(t, name, pairs)
		all = append(all, pairs...)
	}
	for _, counts := range compareWithTFIDF(t, "all together", all) {
		if counts[0] < max(counts[1], counts[2]) {
			t.Errorf("the lexical embedder finds %d, runs of three characters %d, words %d", counts[0], counts[1], counts[2])
		}
	}
}

// compareWithTFIDF returns for each rate of false flags what is found by each way.
func compareWithTFIDF(t *testing.T, name string, all []pair) (out [][]int) {
	t.Helper()
	runs, byWords := cosineOf(newTFIDF(all, trigrams)), cosineOf(newTFIDF(all, words))
	ways := []scores{scored(all, told(lexicalCosine(t))), scored(all, runs), scored(all, byWords), scored(all, told(runs)), scored(all, told(byWords))}
	same, others := len(ways[0].same), len(ways[0].others)
	t.Logf("%s, %d the same, %d others: found by lexical, trigrams, words, trigrams with details, words with details", name, same, others)
	for _, rate := range []float64{0.02, 0.05, 0.1, 0.2} {
		flags := int(math.Round(rate * float64(others)))
		counts := make([]int, len(ways))
		var line strings.Builder
		for i, way := range ways {
			counts[i] = way.foundAt(flags)
			fmt.Fprintf(&line, " | %.0f %%", percent(counts[i], same))
		}
		t.Logf("%3d false flags (%2.0f %%)%s", flags, 100*rate, &line)
		out = append(out, counts)
	}
	return out
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(of) }

// negatedPairs are the like of SICK's, of our own.
var negatedPairs = []pair{
	{a: "The gardener is watering the roses", b: "The gardener is not watering the roses"},
	{a: "There is no clerk sorting letters at the counter", b: "A clerk is sorting letters at the counter"},
	{a: "Nobody is repairing the old bridge", b: "A team is repairing the old bridge"},
	{a: "The pump isn ' t cooling the engine", b: "The pump is cooling the engine"},
	{a: "The tests don't cover the parser", b: "The tests cover the parser"},
}

// No pair in which one text negates the other is flagged.
func TestNegatedPairsAreToldApart(t *testing.T) {
	t.Parallel()
	all := slices.Concat(publicPairs(t)["SICK_test_annotated.txt"], negatedPairs)
	ours, negated := told(lexicalCosine(t)), 0
	for _, p := range all {
		if p.same || negates(p.a) == negates(p.b) {
			continue
		}
		negated++
		if similarity := (1 + ours(p.a, p.b)) / 2; similarity > 0.90 {
			t.Errorf("flagged at %.3f: %s | %s", similarity, p.a, p.b)
		}
	}
	t.Logf("%d pairs with one negated text", negated)
}

func negates(text string) bool {
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		switch word {
		case "no", "not", "nobody", "isn", "don't":
			return true
		}
	}
	return false
}
