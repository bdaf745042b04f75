package semantic_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/embedworker/internal/compare"
	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/internal/semantic"
	"github.com/unloop/unloop/embedworker/internal/vectors"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

func checker(t *testing.T) *semantic.Checker {
	t.Helper()
	store := vectors.NewKV(natstest.StartBare(t).Service(), natskit.Layout{Memory: true}, time.Now, nil)
	return semantic.New(embed.NewLexical(), store, semantic.Observer{})
}

func text(session, text string) semantic.Query {
	return semantic.Query{ScopeKind: "session", ScopeKey: session, Text: text, Rule: compare.Rule{Threshold: .95, MinMatches: 1}, MinWords: 4}
}

func check(t *testing.T, c *semantic.Checker, q semantic.Query) semantic.Answer {
	t.Helper()
	a, err := c.Check(t.Context(), q)
	if err != nil {
		t.Fatalf("check %q: %v", q.Text, err)
	}
	return a
}

func TestTheSameQuestionAgain(t *testing.T) {
	t.Parallel()
	c := checker(t)
	const question = "Which planets of the solar system have rings?"
	if a := check(t, c, text("s", question)); a.Detected || len(a.History) != 0 || !a.Judged {
		t.Errorf("the first prompt: %+v", a)
	}
	if a := check(t, c, text("s", "Please tell me: which planets of the solar system have rings?")); !a.Detected || a.MaxSimilarity <= .95 {
		t.Errorf("the second: %+v", a)
	}
	if a := check(t, c, text("s", "How do volcanoes form under the ocean floor?")); a.Detected || a.MaxSimilarity > .7 {
		t.Errorf("another question: %+v", a)
	}
	if a := check(t, c, text("other", question)); a.Detected || len(a.History) != 0 {
		t.Errorf("another session: %+v", a)
	}
}

func TestNumbersTellApartUnlessTheSourceRules(t *testing.T) {
	t.Parallel()
	c := checker(t)
	for _, source := range []bool{false, true} {
		q := text("numbers", strings.Repeat("Please read the next page of the long annual financial report aloud. ", 2)+"page 17")
		q.AnyDetails, q.ScopeKey = source, q.ScopeKey+map[bool]string{true: " source"}[source]
		check(t, c, q)
		q.Text = strings.ReplaceAll(q.Text, "17", "18")
		q.Threshold = .8
		if a := check(t, c, q); a.Detected != source {
			t.Errorf("source rule %v: %+v", source, a)
		}
	}
}

// A streak is of a scope, whatever shapes its texts have.
func TestAStreakIsExpectedForTextsOfAllShapes(t *testing.T) {
	t.Parallel()
	c := checker(t)
	queries := map[string]semantic.Query{
		"alone": text("s", "Which planets have rings today?"), "sentences": text("s", "Which planets have rings today?"),
		"exchange": {ScopeKind: "session", ScopeKey: "s", Said: "Which planets have rings?", Answered: "Saturn has some.", Rule: compare.Rule{Threshold: .95}},
	}
	one := queries["sentences"]
	one.Method = compare.BySentences
	queries["sentences"] = one
	for _, want := range []vectors.Streak{vectors.StreakNone, vectors.StreakPossible} {
		for name, q := range queries {
			if a := check(t, c, q); a.Streak != want {
				t.Errorf("%s: %d, want %d", name, a.Streak, want)
			}
		}
		if err := c.Expect(t.Context(), semantic.Query{ScopeKind: "session", ScopeKey: "s"}); err != nil {
			t.Fatal(err)
		}
	}
	if a := check(t, c, text("other", "Which planets have rings today?")); a.Streak != vectors.StreakNone {
		t.Errorf("another scope: %d", a.Streak)
	}
	if err := c.Expect(t.Context(), semantic.Query{}); !errors.Is(err, semantic.ErrInvalid) {
		t.Errorf("without a scope: %v", err)
	}
}

func TestShortTextsAreNeitherJudgedNorRemembered(t *testing.T) {
	t.Parallel()
	c := checker(t)
	for range 3 {
		if a := check(t, c, text("short", "yes, go on")); a.Judged || a.Detected {
			t.Errorf("three words: %+v", a)
		}
	}
	if a := check(t, c, text("short", "yes, please go on")); !a.Judged || len(a.History) != 0 {
		t.Errorf("four words: %+v", a)
	}
}

func TestAnExchangeIsItsBothHalves(t *testing.T) {
	t.Parallel()
	c := checker(t)
	exchange := func(said, answered string) semantic.Query {
		q := text("exchange", "")
		q.Said, q.Answered = said, answered
		return q
	}
	check(t, c, exchange("Let me wait for the deployment.", "status: pending"))
	if a := check(t, c, exchange("Let me wait for the deployment again.", "status: finished")); a.Detected {
		t.Errorf("another answer: %+v", a)
	}
	if a := check(t, c, exchange("Let me wait for the deployment.", "status: pending")); !a.Detected || len(a.Matches) != 1 || a.Matches[0] != 1 {
		t.Errorf("the same exchange: %+v", a)
	}
	check(t, c, exchange("Run the deployment script now.", " {} "))
	if a := check(t, c, exchange("Now run the deployment script.", "")); !a.Detected {
		t.Errorf("no answer, twice: %+v", a)
	}
}

func TestTextsAreKeptOnlyWhereAsked(t *testing.T) {
	t.Parallel()
	c := checker(t)
	q := text("texts", "A question that nobody should read.")
	check(t, c, q)
	q.StoreText, q.Text = true, q.Text+strings.Repeat(" é", 4000)
	check(t, c, q)
	a := check(t, c, q)
	if len(a.History) != 2 || a.History[1].Text != "" || !strings.HasPrefix(a.History[0].Text, "A question") || len(a.History[0].Text) > 4096 {
		t.Errorf("got %d entries, texts %q", len(a.History), a.History[1].Text)
	}
}

func TestQueriesThatCannotBeJudged(t *testing.T) {
	t.Parallel()
	c := checker(t)
	for name, spoil := range map[string]func(*semantic.Query){
		"no text":       func(q *semantic.Query) { q.Text = " \n" },
		"no scope":      func(q *semantic.Query) { q.ScopeKey = "" },
		"no number":     func(q *semantic.Query) { q.Threshold = math.NaN() },
		"over one":      func(q *semantic.Query) { q.Threshold = 1.5 },
		"long history":  func(q *semantic.Query) { q.Keep = 1e6 },
		"endless TTL":   func(q *semantic.Query) { q.TTL = 1 << 62 },
		"negative TTL":  func(q *semantic.Query) { q.TTL = -1 },
		"negative keep": func(q *semantic.Query) { q.Keep = -1 },
	} {
		q := text("s", "a text of four words")
		spoil(&q)
		if _, err := c.Check(t.Context(), q); !errors.Is(err, semantic.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	q := text("s", "...")
	q.MinWords = 0
	if _, err := c.Check(t.Context(), q); !errors.Is(err, embed.ErrEmpty) {
		t.Errorf("no word: got %v, want ErrEmpty", err)
	}
}

// broken fails as it is told.
type broken struct {
	embed.Embedder
	err error
}

func (b broken) Embed(context.Context, ...string) ([][]float32, error) { return nil, b.err }

func TestFailuresComeThrough(t *testing.T) {
	t.Parallel()
	c := semantic.New(broken{embed.NewLexical(), embed.ErrInference}, nil, semantic.Observer{})
	if _, err := c.Check(t.Context(), text("s", "a text of four words")); !errors.Is(err, embed.ErrInference) {
		t.Errorf("got %v, want ErrInference", err)
	}
	server := natstest.StartBare(t)
	store := vectors.NewKV(server.Service(), natskit.Layout{}, time.Now, nil)
	server.Stop()
	if _, err := semantic.New(embed.NewLexical(), store, semantic.Observer{}).Check(t.Context(), text("s", "a text of four words")); !errors.Is(err, vectors.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}
