package semantic

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/unloop/unloop/embedworker/internal/compare"
	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/internal/vectors"
	"github.com/unloop/unloop/schemas/details"
)

// The reasons for which texts are embedded, and left out.
const (
	// always is that of queries that are not lazy.
	always = "always"
	// alike: an entry has the same details.
	alike = "alike"
	// unshown: an entry is not in the query's own conversation. A later query may match the
	// text of this one without showing it.
	unshown = "unshown"
	// earlier: an entry that can match has no vector.
	earlier = "earlier"
	// missing: such an entry, whose text the query does not bring. It is left out.
	missing = "missing"
	// unneeded: nothing can match.
	unneeded = "unneeded"
)

// isLazy reports whether a query may be answered without a vector.
func (c *Checker) isLazy(q Query) bool {
	return q.Lazy && blank(q.Text) && !q.AnyDetails && q.Method != compare.BySentences && q.Digest != 0 && !c.store.NeedsVectors()
}

// checkUnembedded answers a query without a vector. It is remembered if the reason to embed
// it is unneeded; else the answer has only the history, and candidates are the entries that
// can match.
func (c *Checker) checkUnembedded(ctx context.Context, q Query) (a Answer, candidates []vectors.Found, reason string, err error) {
	rule := c.rule(q)
	r := c.request(q, q.subject(make([][]float32, 2)))
	r.Dim = c.embedder.Dim()
	r.Suffices = func(past []vectors.Found) bool {
		_, reason := reasonToEmbed(rule, past)
		return reason == unneeded
	}
	history, err := c.compare(ctx, q, r)
	if err != nil {
		return a, nil, "", err
	}
	candidates, reason = reasonToEmbed(rule, history.Past)
	if reason == unneeded {
		c.observer.Text(unneeded)
	}
	return c.answer(q, history, 0), candidates, reason, nil
}

// reasonToEmbed returns why a query with such a history has to be embedded, and the entries
// that can match.
func reasonToEmbed(rule compare.Rule, history []vectors.Found) (candidates []vectors.Found, reason string) {
	matching, others := rule.Candidates(pasts(history))
	for _, i := range matching {
		candidates = append(candidates, history[i])
	}
	switch {
	case len(candidates) >= max(1, rule.MinMatches):
		return candidates, alike
	case others:
		return nil, unshown
	}
	return nil, unneeded
}

// unembedded returns the exchanges of candidates without vectors, except those of the query's
// own digest.
func (c *Checker) unembedded(q Query, candidates []vectors.Found) (out []Exchange) {
	for _, f := range candidates {
		if !f.Unembedded || f.Digest == q.Digest {
			continue
		}
		named := func(e Exchange) bool { return e.Digest == f.Digest }
		at := slices.IndexFunc(q.Alike, named)
		switch {
		case at < 0:
			c.observer.Text(missing)
		case !slices.ContainsFunc(out, named):
			out = append(out, q.Alike[at])
		}
	}
	return out
}

// subject returns the subject of a query with the given halves.
func (q Query) subject(halves [][]float32) compare.Subject {
	q.Halves = halves
	return q.Subject
}

// embed returns the request to compare a query, and the number of texts and exchanges that
// were embedded for it: that of the query, for a reason, and earlier ones.
func (c *Checker) embed(ctx context.Context, q Query, reason string, before []Exchange) (r vectors.Request, embedded int, err error) {
	defer c.timed("embed", time.Now())
	if q.Method == compare.BySentences {
		return c.request(q, q.subject(bySentences)), 0, nil
	}
	texts := q.halves()
	n := len(texts)
	if !q.AnyDetails {
		sum, steady := details.Read(texts...)
		if texts = steady; reason == always {
			q.Details = sum
		}
	}
	for _, e := range before {
		_, steady := details.Read(e.Said, e.Answered)
		texts = append(texts, steady...)
	}
	made, err := c.vectors(ctx, texts)
	if err == nil && !slices.ContainsFunc(made[:n], func(v []float32) bool { return len(v) > 0 }) {
		err = embed.ErrEmpty
	}
	if err != nil {
		return r, 0, err
	}
	c.observer.Text(reason)
	r = c.request(q, q.subject(made[:n]))
	if reason != always {
		r.Earlier = map[uint64][][]float32{q.Digest: made[:n]}
	}
	for i, e := range before {
		c.observer.Text(earlier)
		r.Earlier[e.Digest] = made[n+2*i : n+2*i+2]
	}
	return r, 1 + len(before), nil
}

// vectors embeds texts together. A text without any word, such as a lone bracket, has none
// where another one has words.
func (c *Checker) vectors(ctx context.Context, texts []string) ([][]float32, error) {
	made, err := c.embedder.Embed(ctx, texts...)
	if len(texts) == 1 || !errors.Is(err, embed.ErrEmpty) {
		return made, err
	}
	made = make([][]float32, len(texts))
	for i, text := range texts {
		one, err := c.embedder.Embed(ctx, text)
		if errors.Is(err, embed.ErrEmpty) {
			continue
		}
		if err != nil {
			return nil, err
		}
		made[i] = one[0]
	}
	return made, nil
}
