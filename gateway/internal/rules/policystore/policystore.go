// Package policystore holds the policies in force: those of a file, which it watches, those
// that operators push to all gateways, or the default policy. An invalid bundle changes
// nothing.
//
// It does not know requests, or how a pushed bundle reaches the gateway.
package policystore

import (
	"context"
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

	"github.com/unloop/unloop/schemas/kit/filewatch"
	"github.com/unloop/unloop/schemas/kit/guarded"
	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/policy"
	"github.com/unloop/unloop/schemas/status"
)

// The sources of bundles, in logs and metrics. The first one that exists is in force: a file
// belongs to one gateway and overrides the pushed bundle; without either, the default policy
// is used.
const (
	sourceFile    = status.SourceFile
	sourcePushed  = status.SourcePushed
	sourceDefault = status.SourceDefault
)

// errExpired refuses a bundle whose expires_at has passed. A bundle in force stays.
var errExpired = errors.New("bundle has expired")

// Config says where policies come from.
type Config struct {
	// File is the bundle's file; empty to use pushed bundles.
	File string
	// AllowKeysFrom are the networks, in addition to public ones, from which the keys of
	// tokens may be fetched for a bundle.
	AllowKeysFrom []netip.Prefix
}

// keysTimeout bounds each request for the keys of tokens.
const keysTimeout = 10 * time.Second

// newKeysClient returns the client that fetches the keys of tokens. It refuses URLs into the
// private network, because bundles are pushed over the network.
func newKeysClient(allowed []netip.Prefix) *http.Client {
	client := guarded.NewClient(guarded.NewDialer(allowed, keysTimeout))
	client.Timeout = keysTimeout
	return client
}

// Policies holds the rules in force and replaces them atomically. It is safe for concurrent
// use.
type Policies struct {
	file     string
	keys     *http.Client
	log      *slog.Logger
	now      func() time.Time
	fallback *Rules // the default policy

	version  *prometheus.GaugeVec
	rejected *prometheus.CounterVec
	// refused is 1 for a source whose latest bundle is not in force.
	refused *prometheus.GaugeVec

	current atomic.Pointer[loaded]
	// refusal says why the latest bundle is not in force; nil if it is.
	refusal atomic.Pointer[string]
	mu      sync.Mutex // one replacement at a time
	// read is the content of the file when it was loaded.
	read []byte
}

// loaded is the rules and their source.
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

// Rules returns the rules for a new request.
func (p *Policies) Rules() *Rules { return p.current.Load().Rules }

// Source returns the source of the rules in force: file, pushed or default.
func (p *Policies) Source() string { return p.current.Load().source }

// Remarks returns why the latest bundle is not in force; nothing if it is.
func (p *Policies) Remarks() []string {
	if text := p.refusal.Load(); text != nil {
		return []string{*text}
	}
	return nil
}

// Pushed puts a pushed bundle into force, unless there is a file; nil data means that no
// bundle is pushed. An invalid bundle is logged and counted.
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

// FollowFile puts each new version of the configured file into force until the context
// ends; without a file it returns at once.
func (p *Policies) FollowFile(ctx context.Context) error {
	if p.file == "" {
		return nil
	}
	if err := filewatch.Follow(ctx, p.file, p.read, func(data []byte) { p.replace(data, sourceFile) }, nil); err != nil {
		return fmt.Errorf("follow --policies: %w", err)
	}
	return nil
}

// LoadPushed puts a pushed bundle into force, unless there is a file. It returns an error for
// an invalid bundle.
func (p *Policies) LoadPushed(data []byte) error {
	if p.file != "" {
		return nil
	}
	return p.load(data, sourcePushed)
}

// replace is load for a bundle that arrives while the gateway runs.
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

// load puts a bundle into force. It returns an error for an invalid bundle.
func (p *Policies) load(data []byte, source string) error {
	// A pushed bundle may come from a newer version of this software.
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

// use puts rules into force atomically.
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
