// Package policystore holds the policies that requests are decided by: those of a file,
// which it follows, those that operators push to all gateways, or the default policy.
//
// It knows nothing of requests, and not how a pushed bundle reaches the gateway. A
// bundle that can't be used changes nothing.
package policystore

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas/kit/guarded"
	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/policy"
	"github.com/unloop/unloop/schemas/status"
)

// Where a bundle came from, as logs and metrics name it. The first of them that exists is
// in force: a file belongs to one gateway and overrides the pushed bundle; the default
// policy is used without either.
const (
	sourceFile    = status.SourceFile
	sourcePushed  = status.SourcePushed
	sourceDefault = status.SourceDefault
)

// errExpired refuses a bundle whose expires_at has passed. One in force stays.
var errExpired = errors.New("bundle has expired")

// Config says where policies come from.
type Config struct {
	// File is the bundle's file; empty to use pushed bundles.
	File string
	// AllowKeysFrom are the networks, besides public ones, from which a bundle may
	// have the keys of tokens fetched.
	AllowKeysFrom []netip.Prefix
}

// keysTimeout bounds each request for the keys of tokens.
const keysTimeout = 10 * time.Second

// newKeysClient returns the client that fetches the keys of tokens. Bundles are pushed over
// the network, so that their URLs must not lead into it.
func newKeysClient(allowed []netip.Prefix) *http.Client {
	client := guarded.NewClient(guarded.NewDialer(allowed, keysTimeout))
	client.Timeout = keysTimeout
	return client
}

// Policies holds the rules in force and replaces them in one step. It may be used by
// many goroutines at once.
type Policies struct {
	file     string
	keys     *http.Client
	log      *slog.Logger
	now      func() time.Time
	fallback *Rules // the default policy

	version  *prometheus.GaugeVec
	rejected *prometheus.CounterVec
	// refused is 1 for a source whose latest bundle was not put into force.
	refused *prometheus.GaugeVec

	current atomic.Pointer[loaded]
	// refusal says why the latest bundle of a source is not in force; nil if it is.
	refusal atomic.Pointer[string]
	mu      sync.Mutex // one replacement at a time
	// read is what the file held when it was loaded.
	read []byte
}

// loaded is the rules and where they came from.
type loaded struct {
	*Rules
	source string
}

// New loads the configured file, or the default policy.
func New(cfg Config, now func() time.Time, log *slog.Logger, reg prometheus.Registerer) (*Policies, error) {
	p := &Policies{
		file: cfg.File, keys: newKeysClient(cfg.AllowKeysFrom), log: log, now: now,
		version:  metric.Gauges(reg, "unloop_gateway_policy_version", "Policy bundle in force and its source (file, pushed or default); always 1.", "version", "source"),
		rejected: metric.Counters(reg, "unloop_gateway_policy_rejected_total", "Policy bundles that were refused, by source: file or pushed.", "source"),
		refused:  metric.Gauges(reg, "unloop_gateway_policy_refused", "1 while the latest policy bundle of a source (file or pushed) is refused and not in force.", "source"),
	}
	for _, source := range []string{sourceFile, sourcePushed} {
		p.rejected.WithLabelValues(source)
		p.refused.WithLabelValues(source)
	}
	standard, err := policy.Default(os.Getenv)
	if err != nil {
		return nil, err
	}
	if p.fallback, err = newRules(standard, p.keys); err != nil {
		return nil, err
	}
	if p.file == "" {
		p.use(p.fallback, sourceDefault)
		return p, nil
	}
	if p.read, err = os.ReadFile(p.file); err != nil {
		return nil, fmt.Errorf("read --policies: %w", err)
	}
	if err := p.load(p.read, sourceFile); err != nil {
		return nil, fmt.Errorf("read --policies %s: %w", p.file, err)
	}
	return p, nil
}

// Rules returns the rules that a new request is decided by.
func (p *Policies) Rules() *Rules { return p.current.Load().Rules }

// Source names where the rules in force came from: file, pushed or default.
func (p *Policies) Source() string { return p.current.Load().source }

// Remarks returns why the latest bundle is not in force; nothing if it is.
func (p *Policies) Remarks() []string {
	if text := p.refusal.Load(); text != nil {
		return []string{*text}
	}
	return nil
}

// Pushed puts the bundle into force that was pushed to all gateways, unless a file
// outranks it; nil data means that there is none. A bundle that can't be used is
// logged and counted.
func (p *Policies) Pushed(data []byte) {
	switch {
	case p.file == "" && data == nil:
		p.refused.WithLabelValues(sourcePushed).Set(0)
		p.refusal.Store(nil)
		p.use(p.fallback, sourceDefault)
	case p.file == "":
		p.replace(data, sourcePushed)
	case data != nil:
		p.log.Warn("a pushed policy bundle is not used here: --policies overrides it", "file", p.file)
	}
}

// LoadPushed puts the bundle into force that was pushed to all gateways, unless a file
// outranks it, or returns why it can't be used.
func (p *Policies) LoadPushed(data []byte) error {
	if p.file != "" {
		return nil
	}
	return p.load(data, sourcePushed)
}

// replace is load for a bundle that comes while the gateway runs.
func (p *Policies) replace(data []byte, source string) {
	if err := p.load(data, source); err != nil {
		p.rejected.WithLabelValues(source).Inc()
		p.refused.WithLabelValues(source).Set(1)
		text := fmt.Sprintf("the latest policy bundle (%s) is not in force: %v", source, err)
		p.refusal.Store(&text)
		p.log.Error("policy bundle not used; the one in force stays",
			"source", source, "in_force", p.Rules().Version(), "error", err)
	}
}

// load puts a bundle into force, or returns why it can't be used.
func (p *Policies) load(data []byte, source string) error {
	// What was pushed may come from a newer version of this software.
	parse := policy.Parse
	if source == sourcePushed {
		parse = policy.ParseTolerant
	}
	bundle, err := parse(data)
	if err != nil {
		return err
	}
	if bundle.ExpiredAt(p.now()) {
		return fmt.Errorf("%w: expires_at is %s", errExpired, bundle.ExpiresAt.Format(time.RFC3339))
	}
	rules, err := newRules(bundle, p.keys)
	if err != nil {
		return err
	}
	for _, w := range bundle.Warnings() {
		p.log.Warn("policy bundle", "version", rules.Version(), "warning", w.String())
	}
	p.use(rules, source)
	p.refused.WithLabelValues(source).Set(0)
	p.refusal.Store(nil)
	return nil
}

// use puts rules into force, in one step.
func (p *Policies) use(rules *Rules, source string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.current.Swap(&loaded{rules, source})
	if old != nil && old.Version() == rules.Version() && old.source == source {
		return
	}
	p.version.Reset()
	p.version.WithLabelValues(rules.Version(), source).Set(1)
	if old != nil {
		p.log.Info("policies in force", "version", rules.Version(), "before", old.Version(), "source", source)
	}
}
