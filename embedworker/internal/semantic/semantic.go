// Package semantic answers whether a text repeats the history of its scope: it
// makes the vectors, asks the store, and has package compare decide.
//
// Both services of the worker use it, the one on NATS and Agent Sentinel's. It
// knows neither of them.
package semantic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/unloop/unloop/embedworker/internal/compare"
	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/internal/vectors"
	"github.com/unloop/unloop/schemas/bounded"
	"github.com/unloop/unloop/schemas/details"
)

// ErrInvalid reports a query that is incomplete or out of range.
var ErrInvalid = errors.New("invalid query")

// Defaults and bounds of a query; the defaults are Agent Sentinel's.
const (
	DefaultKeep = 5
	DefaultTTL  = time.Hour
	maxTTL      = 30 * 24 * time.Hour
)

// Query is one text, or one exchange, with the parameters of its comparison.
type Query struct {
	ScopeKind, ScopeKey string
	ID, Replaces        string // see vectors.Request
	// Text is compared alone; where it is "", Said and Answered are the halves
	// of an exchange.
	Text           string
	Said, Answered string
	MinWords       int           // shorter texts are neither compared nor remembered
	Keep           int           // 0 means DefaultKeep
	TTL            time.Duration // 0 means DefaultTTL
	// Rule has no Within. AnyDetails also embeds the text as given.
	compare.Rule
	// UsualThreshold says that Threshold is the default: the embedder may have a
	// lower one for two exchanges of one conversation.
	UsualThreshold bool
	// Subject has no Halves, and Details only if the query is lazy.
	compare.Subject
	// Lazy embeds an exchange only if an entry of the history can match it. Alike are then
	// earlier exchanges with the same details, whose entries may have no vectors.
	Lazy      bool
	Alike     []Exchange
	StoreText bool
	Peek      bool
}

// Exchange is an exchange before the newest one.
type Exchange struct {
	Said, Answered string
	Digest         uint64
}

// Answer is the result of a query with the history that it was compared with.
type Answer struct {
	compare.Result
	// Judged is false for a text that was too short.
	Judged bool
	// History is what the scope remembered, newest first; Result.Matches are
	// indexes into it.
	History []vectors.Found
	// Replaced reports whether the history already had the query's text under the ID
	// in Query.Replaces.
	Replaced bool
	// Streak is what is known of the scope's streak.
	Streak vectors.Streak
	// Embedded is the number of texts and exchanges that were embedded.
	Embedded int
}

// Observer is told what a checker does. A nil function is not called.
type Observer struct {
	// Took gets the durations of "embed" and "store".
	Took func(part string, took time.Duration)
	// Text gets the reason for which a text or exchange was embedded, or left out.
	Text func(reason string)
}

// Checker answers queries. It is safe for concurrent use.
type Checker struct {
	embedder embed.Embedder
	store    vectors.Store
	observer Observer
}

// New returns a checker.
func New(e embed.Embedder, s vectors.Store, o Observer) *Checker {
	if o.Took == nil {
		o.Took = func(string, time.Duration) {}
	}
	if o.Text == nil {
		o.Text = func(string) {}
	}
	return &Checker{embedder: e, store: s, observer: o}
}

// Check answers a query. Errors are ErrInvalid, those of embed.Embedder and
// those of vectors.Store.
func (c *Checker) Check(ctx context.Context, q Query) (Answer, error) {
	if err := q.check(); err != nil {
		return Answer{}, err
	}
	if q.MinWords > 0 && details.Words(q.MinWords, q.Said, q.Answered, q.Text) < q.MinWords {
		return Answer{}, nil
	}
	reason, before := always, []Exchange(nil)
	if c.isLazy(q) {
		a, candidates, need, err := c.checkUnembedded(ctx, q)
		if err != nil || need == unneeded {
			return a, err
		}
		reason, before = need, c.unembedded(q, candidates)
	}
	r, embedded, err := c.embed(ctx, q, reason, before)
	if err != nil {
		return Answer{}, err
	}
	history, err := c.compare(ctx, q, r)
	if err != nil {
		return Answer{}, err
	}
	return c.answer(q, history, embedded), nil
}

// answer returns the answer to a query that was compared with a history.
func (c *Checker) answer(q Query, history vectors.History, embedded int) Answer {
	return Answer{
		Result: compare.Decide(pasts(history.Past), c.rule(q)), Judged: true, History: history.Past,
		Replaced: history.Replaced, Streak: history.Streak, Embedded: embedded,
	}
}

func pasts(found []vectors.Found) []compare.Past {
	past := make([]compare.Past, len(found))
	for i, f := range found {
		past[i] = f.Past
	}
	return past
}

// Expect records that a streak is about to be written for the scope of a query, for all
// shapes of texts. Of the other fields it uses only TTL.
func (c *Checker) Expect(ctx context.Context, q Query) error {
	if err := q.checkScope(); err != nil {
		return err
	}
	embedded := make([]float32, c.embedder.Dim())
	for _, halves := range [][][]float32{{embedded}, {embedded, embedded}, bySentences} {
		if err := c.store.Expect(ctx, c.request(q, compare.Subject{Halves: halves})); err != nil {
			return err
		}
	}
	return nil
}

// bySentences is the vector of texts that are compared by sentences, because stores need
// one.
var bySentences = [][]float32{{1}}

func (c *Checker) rule(q Query) compare.Rule {
	if q.UsualThreshold {
		q.Within = c.embedder.Within()
	}
	return q.Rule
}

func (q Query) check() error {
	switch {
	case blank(q.Text) && blank(q.Said) && blank(q.Answered):
		return fmt.Errorf("%w: no text", ErrInvalid)
	case math.IsNaN(q.Threshold) || q.Threshold < 0 || q.Threshold > 1:
		return fmt.Errorf("%w: threshold %g is not between 0 and 1", ErrInvalid, q.Threshold)
	case q.Keep < 0 || q.Keep > vectors.MaxKeep:
		return fmt.Errorf("%w: history of %d, at most %d", ErrInvalid, q.Keep, vectors.MaxKeep)
	}
	return q.checkScope()
}

func (q Query) checkScope() error {
	switch {
	case q.ScopeKey == "" || q.ScopeKind == "":
		return fmt.Errorf("%w: no scope", ErrInvalid)
	case q.TTL < 0 || q.TTL > maxTTL:
		return fmt.Errorf("%w: TTL %s, at most %s", ErrInvalid, q.TTL, maxTTL)
	}
	return nil
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

// halves returns the texts to embed: one, or two if there are two halves; one of them may
// be blank.
func (q Query) halves() []string {
	if !blank(q.Text) {
		return []string{q.Text}
	}
	return []string{q.Said, q.Answered}
}

// storedText bounds a remembered text, in bytes.
const storedText = 4096

func (c *Checker) compare(ctx context.Context, q Query, r vectors.Request) (vectors.History, error) {
	defer c.timed("store", time.Now())
	if q.StoreText {
		r.Text = bounded.Text(strings.ToValidUTF8(strings.Join(q.halves(), "\n"), "\uFFFD"), storedText)
	}
	return c.store.Compare(ctx, r)
}

func (c *Checker) timed(part string, start time.Time) { c.observer.Took(part, time.Since(start)) }

// request returns a query as stores get it, without its text.
func (c *Checker) request(q Query, s compare.Subject) vectors.Request {
	r := vectors.Request{
		Scope:   vectors.Scope{Kind: q.ScopeKind, Key: q.ScopeKey, Embedder: c.embedder.Name()},
		Subject: s, ID: q.ID, Replaces: q.Replaces, Keep: q.Keep, TTL: q.TTL, Peek: q.Peek, SameDetails: !q.AnyDetails,
	}
	if r.Keep == 0 {
		r.Keep = DefaultKeep
	}
	if r.TTL == 0 {
		r.TTL = DefaultTTL
	}
	return r
}
