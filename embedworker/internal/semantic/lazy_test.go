package semantic_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/unloop/unloop/embedworker/internal/compare"
	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/internal/semantic"
	"github.com/unloop/unloop/embedworker/internal/vectors"
	"github.com/unloop/unloop/schemas/details"
)

// counting counts the texts that it embeds.
type counting struct {
	embed.Embedder
	texts int
}

func (c *counting) Embed(ctx context.Context, texts ...string) ([][]float32, error) {
	c.texts += len(texts)
	return c.Embedder.Embed(ctx, texts...)
}

// needing is a store that needs vectors.
type needing struct{ vectors.Store }

func (needing) NeedsVectors() bool { return true }

// session makes the queries of a conversation. Each exchange is its number's digest.
type session []semantic.Exchange

// add adds an exchange and returns its query.
func (s *session) add(said, answered string) semantic.Query {
	q := semantic.Query{
		ScopeKind: "session", ScopeKey: "s", Said: said, Answered: answered, MinWords: 4, Lazy: true,
		Rule:    compare.Rule{Threshold: .95, MinMatches: 2},
		Subject: compare.Subject{Digest: uint64(len(*s) + 1), Details: details.Of(said, answered)},
	}
	for _, e := range slices.Backward(*s) {
		q.Earlier = append(q.Earlier, e.Digest)
		if details.Of(e.Said, e.Answered) == q.Details {
			q.Alike = append(q.Alike, e)
		}
	}
	*s = append(*s, semantic.Exchange{Said: said, Answered: answered, Digest: q.Digest})
	return q
}

// lazily returns a checker, the number of texts that it embeds, and their reasons.
func lazily(t *testing.T, wrap func(vectors.Store) vectors.Store) (c *semantic.Checker, embedder *counting, reasons map[string]int) {
	t.Helper()
	embedder, reasons = &counting{Embedder: embed.NewLexical()}, map[string]int{}
	var mu sync.Mutex
	return semantic.New(embedder, wrap(vectors.NewMemory(time.Now)), semantic.Observer{Text: func(reason string) {
		mu.Lock()
		defer mu.Unlock()
		reasons[reason]++
	}}), embedder, reasons
}

func same(s vectors.Store) vectors.Store { return s }

func TestAnExchangeIsEmbeddedWhenItCanMatch(t *testing.T) {
	t.Parallel()
	c, embedder, reasons := lazily(t, same)
	eager, _, _ := lazily(t, same)
	var s session
	for i, step := range []struct {
		said, answered string
		embedded       int
		detected       bool
	}{
		{"Let me read page 1 of the report.", "It says nothing about rings.", 0, false},
		{"Let me read page 2 of the report.", "It says nothing about rings.", 0, false},
		{"Let me look at the report again.", "It still says nothing about rings.", 0, false},
		{"Let me look again at the report.", "It says nothing about rings still.", 0, false}, // two matches are needed
		{"Again, let me look at the report.", "Still it says nothing about rings.", 3, true},
		{"Let me look at the report, again.", "Nothing about rings it still says.", 3, true}, // the one before has a vector
		{"Let me read page 3 of the report.", "It says nothing about rings.", 0, false},
	} {
		q := s.add(step.said, step.answered)
		got := check(t, c, q)
		q.Lazy = false
		want := check(t, eager, q)
		if got.Detected != step.detected || got.Embedded != step.embedded {
			t.Errorf("step %d: detected %t, %d embedded; want %t, %d", i, got.Detected, got.Embedded, step.detected, step.embedded)
		}
		if got.Detected != want.Detected || len(got.History) != len(want.History) ||
			want.Detected && (got.MaxSimilarity != want.MaxSimilarity || !slices.Equal(got.Matches, want.Matches)) {
			t.Errorf("step %d: %+v, but if everything is embedded %+v", i, got.Result, want.Result)
		}
	}
	if want := map[string]int{"unneeded": 5, "alike": 2, "earlier": 4}; !maps.Equal(reasons, want) || embedder.texts != 12 {
		t.Errorf("reasons %v, %d texts; want %v and 12", reasons, embedder.texts, want)
	}
}

func TestEverythingIsEmbeddedWhereLaterQueriesCouldNotShowIt(t *testing.T) {
	t.Parallel()
	exchange := func(s *session) semantic.Query {
		return s.add("Let me look at the report again.", "It still says nothing about rings.")
	}
	for name, tt := range map[string]struct {
		wrap   func(vectors.Store) vectors.Store
		change func(*semantic.Query)
		want   map[string]int
	}{
		"a lazy query":         {same, func(*semantic.Query) {}, map[string]int{"unneeded": 2, "alike": 1, "earlier": 2}},
		"no lazy query":        {same, func(q *semantic.Query) { q.Lazy = false }, map[string]int{"always": 3}},
		"the source's rule":    {same, func(q *semantic.Query) { q.AnyDetails = true }, map[string]int{"always": 3}},
		"no digest":            {same, func(q *semantic.Query) { q.Digest = 0 }, map[string]int{"always": 3}},
		"another conversation": {same, func(q *semantic.Query) { q.Earlier = nil }, map[string]int{"unneeded": 1, "unshown": 1, "alike": 1, "earlier": 1}},
		"its own conversation": {same, func(q *semantic.Query) { q.Earlier, q.Method = nil, compare.InOwnHistory }, map[string]int{"unneeded": 3}},
		"texts that are gone":  {same, func(q *semantic.Query) { q.Alike = nil }, map[string]int{"unneeded": 2, "alike": 1, "missing": 2}},
		"the same each time":   {same, func(q *semantic.Query) { q.Digest, q.Alike = 7, nil }, map[string]int{"unneeded": 1, "unshown": 1, "alike": 1}},
		"a store of vectors":   {func(s vectors.Store) vectors.Store { return needing{s} }, func(*semantic.Query) {}, map[string]int{"always": 3}},
	} {
		c, _, reasons := lazily(t, tt.wrap)
		var s session
		for range 3 {
			q := exchange(&s)
			tt.change(&q)
			check(t, c, q)
		}
		if !maps.Equal(reasons, tt.want) {
			t.Errorf("%s: %v, want %v", name, reasons, tt.want)
		}
	}
}
