package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"code.dny.dev/ssrf"

	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/descriptor"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/provider/transcript"
	"github.com/unloop/unloop/schemas/policy"
)

// Where a bundle came from, as logs and metrics say it. The first of them that
// is there holds: a file is this gateway's own and outranks what was pushed to
// all, and the default policy holds when there is neither.
const (
	sourceFile    = "file"
	sourcePushed  = "pushed"
	sourceDefault = "default"
)

// errExpired refuses a bundle whose expires_at has passed. One in force stays.
var errExpired = errors.New("bundle has expired")

// ruleset is a bundle in force and what the gateway derives from it. It never
// changes: a request takes one at its begin and is judged by it to its end.
type ruleset struct {
	*bundle.Set
	// tail is how many of the newest messages the policies compare at most.
	tail int
	// items is how many of the newest tool rounds they look at.
	items int
	// exchanges is how many exchanges before the newest one they compare at most.
	exchanges int
	// reading is how each policy reads tool results.
	reading     map[string]provider.Rules
	descriptors *descriptor.Reader
	// headers are those that the bundle looks at; recordings keep them.
	headers []string
	// texts are the digests of long texts that were read before: a history comes
	// again with each request.
	texts *transcript.Cache
}

// wanted is what the policies need of a prompt.
func (r *ruleset) wanted(path string) provider.Options {
	return provider.Options{Tail: r.tail, Items: r.items, Exchanges: r.exchanges, Path: path, Cache: r.texts}
}

// newKeysClient returns what fetches the keys that a bundle's tokens are verified
// with. Bundles are pushed over the network: their URLs lead to public
// addresses and the networks that the operator allows, by no proxy and without
// redirects.
func newKeysClient(allowed []netip.Prefix) *http.Client {
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: dialTimeout, Control: guardian(allowed).Safe}).DialContext,
			TLSHandshakeTimeout: tlsHandshakeTimeout, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: idleConnTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// guardian sees addresses after name resolution, so that no name leads around it.
func guardian(allowed []netip.Prefix) *ssrf.Guardian {
	var v4, v6 []netip.Prefix
	for _, p := range allowed {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
}

func newRuleset(b *policy.Bundle, keysClient *http.Client) (*ruleset, error) {
	set, err := bundle.Compile(b)
	if err != nil {
		return nil, err
	}
	r := &ruleset{Set: set, descriptors: descriptor.New(b.JWT, b.TrustedProxies, os.Getenv, keysClient), headers: set.Headers(), reading: map[string]provider.Rules{}, texts: provider.NewCache()}
	for _, p := range set.Policies() {
		if p.Prompt != nil {
			r.tail, r.items = max(r.tail, p.Prompt.TailMessages), historyItems
		}
		if p.Tool != nil || p.Cycle != nil {
			r.items, r.reading[p.ID] = historyItems, rulesOf(p).Numbered()
		}
		if p.Semantic != nil {
			r.exchanges = max(r.exchanges, p.Semantic.HistorySize)
		}
	}
	return r, nil
}

// bundles holds the ruleset in force and replaces it in one step. A bundle that
// can't be used changes nothing.
type bundles struct {
	file    string
	keys    *http.Client
	log     *slog.Logger
	now     func() time.Time
	metrics *metrics
	// fallback is the default policy.
	fallback *ruleset

	current atomic.Pointer[ruleset]
	mu      sync.Mutex // one replacement at a time
	source  string
	// signal, if not nil, is told of every bundle that was taken or refused.
	signal func(version string, err error)
	// read is what the file held when it was read last; the watcher's own.
	read []byte
}

// newBundles loads the configured file, or the default policy.
func newBundles(cfg Config, now func() time.Time, log *slog.Logger, m *metrics) (*bundles, error) {
	file := cfg.Policies
	b := &bundles{file: file, keys: newKeysClient(cfg.JWKSAllowCIDR), log: log, now: now, metrics: m}
	standard, err := policy.Default(os.Getenv)
	if err != nil {
		return nil, err
	}
	if b.fallback, err = newRuleset(standard, b.keys); err != nil {
		return nil, err
	}
	if file == "" {
		b.use(b.fallback, sourceDefault)
		return b, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read --policies: %w", err)
	}
	b.read = data
	if err := b.load(data, sourceFile); err != nil {
		return nil, fmt.Errorf("read --policies %s: %w", file, err)
	}
	return b, nil
}

// inForce is the ruleset that a new request is judged by.
func (b *bundles) inForce() *ruleset { return b.current.Load() }

// load puts a bundle into force, or returns why it can't be.
func (b *bundles) load(data []byte, source string) error {
	// What was pushed may come from a newer version of this software.
	parse := policy.Parse
	if source == sourcePushed {
		parse = policy.ParseTolerant
	}
	bundle, err := parse(data)
	if err != nil {
		return err
	}
	if bundle.ExpiredAt(b.now()) {
		return fmt.Errorf("%w: expires_at is %s", errExpired, bundle.ExpiresAt.Format(time.RFC3339))
	}
	rules, err := newRuleset(bundle, b.keys)
	if err != nil {
		return err
	}
	for _, w := range bundle.Warnings() {
		b.log.Warn("policy bundle", "version", rules.Version(), "warning", w.String())
	}
	b.use(rules, source)
	return nil
}

// use puts a ruleset into force, in one step.
func (b *bundles) use(rules *ruleset, source string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.current.Swap(rules)
	if old != nil && old.Version() == rules.Version() && b.source == source {
		return
	}
	b.source = source
	defer b.tell(rules.Version(), nil)
	b.metrics.policyVersion.Reset()
	b.metrics.policyVersion.WithLabelValues(rules.Version(), source).Set(1)
	if old != nil {
		b.log.Info("policies in force", "version", rules.Version(), "before", old.Version(), "source", source)
	}
}

// replace is load for a bundle that comes while the gateway runs: what is bad
// is logged and counted, and the one in force stays.
func (b *bundles) replace(data []byte, source string) {
	if err := b.load(data, source); err != nil {
		b.metrics.policyRejected.WithLabelValues(source).Inc()
		b.log.Error("policy bundle not used; the one in force stays",
			"source", source, "in_force", b.inForce().Version(), "error", err)
		b.tell("", err)
	}
}

func (b *bundles) tell(version string, err error) {
	if b.signal != nil {
		b.signal(version, err)
	}
}

// pushed follows the cluster's bundle; nil data says that there is none.
func (b *bundles) pushed(data []byte) {
	switch {
	case b.file == "" && data == nil:
		b.use(b.fallback, sourceDefault)
	case b.file == "":
		b.replace(data, sourcePushed)
	case data != nil:
		b.log.Warn("a pushed policy bundle is not used here: --policies outranks it", "file", b.file)
	}
}
