package embed_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/unloop/unloop/embedworker/internal/embed"
)

// similarity is the project's: 1 - cosine distance / 2.
func similarity(tb testing.TB, e embed.Embedder, a, b string) float64 {
	tb.Helper()
	v, err := e.Embed(context.Background(), a, b)
	if err != nil {
		tb.Fatal(err)
	}
	return (1 + embed.Cosine(v[0], v[1])) / 2
}

func TestLexicalOrderOfLikeness(t *testing.T) {
	t.Parallel()
	l := embed.NewLexical()
	const text = "Extract the customer's name and the delivery address from the letter below."
	least := 1.01
	for _, c := range []struct{ name, text string }{
		{"the same", text},
		{"another case", strings.ToUpper(text)},
		{"politeness", "Could you please extract the customer's name and the delivery address from the letter below?"},
		{"clauses in another order", "From the letter below extract the delivery address and the customer's name."},
		{"another form of a word", "Extracting the customer's name and the delivery address from the letter below."},
		{"another content word", "Extract the customer's name and the billing address from the letter below."},
		{"another task of the same words", "Translate the letter below, keeping the customer's name."},
		{"nothing in common", "Which planets have rings?"},
	} {
		got := similarity(t, l, text, c.text)
		if got > least+0.002 {
			t.Errorf("%s: %.3f is above the one before, %.3f", c.name, got, least)
		}
		least = got
	}
	if least > 0.6 {
		t.Errorf("texts with nothing in common come out at %.3f", least)
	}
}

func TestLexicalVectorsDoNotChangeBetweenVersions(t *testing.T) {
	t.Parallel()
	v, err := embed.NewLexical().Embed(t.Context(), "Find file_2 again, please: über 東京!")
	if err != nil {
		t.Fatal(err)
	}
	var at []int
	for i, x := range v[0] {
		if math.Abs(float64(x)) > 0.2 {
			at = append(at, i)
		}
	}
	want := []int{24, 67, 110, 118, 164, 216, 336, 354, 410, 418}
	if !slices.Equal(at, want) {
		t.Errorf("largest coordinates are at %v, were at %v: stored vectors would be worthless, change the name too", at, want)
	}
}

func TestLexicalRefusesTextsWithoutWords(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " \n", "...", "''"} {
		if _, err := embed.NewLexical().Embed(t.Context(), "a word", text); !errors.Is(err, embed.ErrEmpty) {
			t.Errorf("%q: got %v, want ErrEmpty", text, err)
		}
	}
}

func TestLexicalVectorsAreUnitVectors(t *testing.T) {
	t.Parallel()
	l := embed.NewLexical()
	rapid.Check(t, func(t *rapid.T) {
		text := "x" + rapid.String().Draw(t, "text") + string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		v, err := l.Embed(context.Background(), text)
		if err != nil {
			t.Fatal(err)
		}
		if length := embed.Cosine(v[0], v[0]); math.Abs(length-1) > 1e-4 {
			t.Fatalf("%q: length %g", text, length)
		}
	})
}

func TestLexicalReadsTheEndOfLongTexts(t *testing.T) {
	t.Parallel()
	l := embed.NewLexical()
	long := strings.Repeat("padding é ", 20000)
	if got := similarity(t, l, long+"the very end", "unrelated "+long+"the very end"); got < 0.999 {
		t.Errorf("the beginning of 200 KB changed the vector: %.4f", got)
	}
}

func FuzzLexical(f *testing.F) {
	for _, text := range []string{"camelCase_x9", "'", "\xff\xfe", "漢字", "a’s"} {
		f.Add(text)
	}
	l := embed.NewLexical()
	f.Fuzz(func(t *testing.T, text string) {
		once, err := l.Embed(t.Context(), text)
		if err != nil {
			if !errors.Is(err, embed.ErrEmpty) {
				t.Fatal(err)
			}
			return
		}
		again, err := l.Embed(t.Context(), text)
		if err != nil || !slices.Equal(once[0], again[0]) {
			t.Errorf("%q: two vectors (%v)", text, err)
		}
	})
}

func BenchmarkLexical(b *testing.B) {
	l := embed.NewLexical()
	for name, words := range map[string]int{"32 words": 32, "200 words": 200} {
		text := strings.Join(slices.Repeat(strings.Fields("the agent reads configuration file_7 and lists every open ticket of team number 12 without finding"), 13)[:words], " ")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Embed(context.Background(), text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestLexicalVectorsOfLongTextsDoNotChange compares sums over the vectors of texts in which
// words come again in other forms, other cases and beside other words.
func TestLexicalVectorsOfLongTextsDoNotChange(t *testing.T) {
	t.Parallel()
	for seed, want := range lexicalSums {
		v, err := embed.NewLexical().Embed(t.Context(), longText(uint64(seed)))
		if err != nil {
			t.Fatal(err)
		}
		var sum float64
		for i, x := range v[0] {
			sum += float64(x) * math.Sin(float64(3*i+seed))
		}
		if math.Abs(sum-want) > 1e-5 {
			t.Errorf("text %d: sum %.6f, was %.6f: stored vectors would be worthless, change the name too", seed, sum, want)
		}
	}
}

var lexicalSums = []float64{
	-1.5211800, 0.6365550, -0.4630468, 1.2402654, -0.5476934, -0.8938509, -1.2246163, 0.0132885,
	1.3753381, 1.0301051, 0.3168731, -1.0039429, -1.5367911, -0.2943098, 0.9632275, 1.3147999,
}

// longText returns a text of up to 20 KB.
func longText(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	vocabulary := strings.Fields("the The THE reads reading read fileName filename file_2 12 5'5 55 don't dont über Über 東京 ¥ a an " +
		"please configuration configurations listed lists {\"key\": 'value'} /usr/local/bin -f é ſix 再试 x9 \xff\xfe wait... C++ e.g. q’s")
	var b strings.Builder
	for range 1 + r.IntN(40<<(seed%8)) {
		b.WriteString(vocabulary[r.IntN(len(vocabulary))])
		b.WriteByte(" \n,."[r.IntN(4)])
	}
	return b.String()
}
