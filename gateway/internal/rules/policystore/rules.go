package policystore

import (
	"net/http"
	"os"
	"slices"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/descriptor"
	"github.com/unloop/unloop/gateway/internal/wire/prefixcache"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/schemas/policy"
)

// HistoryItems is the number of newest rounds and human messages that are sent with a check:
// more than any default rule looks back, so that rounds match although some have left the
// history.
const HistoryItems = 48

// Rules is a bundle in force with what the gateway derives from it. It never changes; a
// request keeps its Rules until it ends.
type Rules struct {
	*bundle.Set
	// Reading says how each policy reads tool results.
	Reading     map[string]provider.Rules
	Descriptors *descriptor.Reader
	// Headers are the names of the headers that the bundle uses; recordings keep them.
	Headers []string
	// read is what the policies need of a prompt. Its cache has the digests of long texts,
	// because each request repeats the history.
	read provider.Options
	// Prefixes has the checkpoints of the requests of each caller.
	Prefixes *prefixcache.Cache
}

// Options returns what the policies need of a prompt that was sent to path.
func (r *Rules) Options(path string) provider.Options {
	out := r.read
	out.Path = path
	return out
}

func newRules(b *policy.Bundle, keys *http.Client) (*Rules, error) {
	set, err := bundle.Compile(b)
	if err != nil {
		return nil, err
	}
	r := &Rules{
		Set: set, Descriptors: descriptor.New(b.JWT, b.TrustedProxies, os.Getenv, keys), Headers: set.Headers(),
		Reading: map[string]provider.Rules{}, read: provider.Options{Cache: provider.NewCache()}, Prefixes: prefixcache.New(prefixcache.DefaultLimits()),
	}
	for _, p := range set.Policies() {
		if p.Prompt != nil {
			r.read.Tail, r.read.Items = max(r.read.Tail, p.Prompt.TailMessages), HistoryItems
		}
		if p.Tool != nil || p.Cycle != nil {
			r.read.Items, r.Reading[p.ID] = HistoryItems, reading(p).Numbered()
		}
		if p.Semantic != nil {
			r.read.Exchanges = max(r.read.Exchanges, p.Semantic.HistorySize)
		}
	}
	return r, nil
}

// reading returns how a policy reads results. Validation has compiled its patterns before,
// so none fails here.
func reading(p *bundle.Policy) provider.Rules {
	rules := provider.Rules{Hints: []string{p.Hint.Text}}
	if p.Tool == nil {
		return rules
	}
	kinds := recognize.Kinds(0)
	if p.Tool.VolatileDefaults {
		kinds = recognize.AllKinds
	}
	if volatile, err := recognize.NewVolatile(kinds, p.Tool.VolatilePatterns...); err == nil {
		rules.Volatile = volatile
	}
	// The default patterns are built in, which is faster.
	own := !slices.Equal(p.Tool.ErrorPatterns, policy.DefaultErrorPatterns)
	if failures, err := recognize.NewFailures(p.Tool.ErrorPatterns...); err == nil && own {
		rules.Failures = failures
	}
	return rules
}
