package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/ask/ask"
	"github.com/unloop/unloop/gateway/internal/ask/checker"
	"github.com/unloop/unloop/gateway/internal/decide/explain"
	"github.com/unloop/unloop/gateway/internal/edge/checkapi"
	"github.com/unloop/unloop/gateway/internal/memory/cluster"
	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/gateway/internal/rules/override"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/seal"
)

// ErrRequest says that the input of Explain describes no request.
var ErrRequest = errors.New("not a request")

// Explain explains the decision on a request, without counting it. The description is the
// body of a POST /unloop/v1/check with an extra field for headers. With a nil js, Explain
// uses only the configured bundle; otherwise also the trusted records of the running system.
func Explain(ctx context.Context, cfg *Config, js jetstream.JetStream, trust seal.Trust, description []byte) (*explain.Explanation, error) {
	e, err := New(cfg, time.Now)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shared := cluster.New(new([identity.KeySize]byte), trust, time.Now, slog.New(slog.DiscardHandler))
	var detectors *checker.Checker
	if js != nil {
		if shared, detectors, err = e.join(ctx, js, trust); err != nil {
			return nil, err
		}
	}
	r, err := checkapi.Description(ctx, description)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	d, fault := checkapi.Reader{Table: e.stages.Table, MaxBytes: cfg.MaxInspectBytes}.Read(r)
	if fault != nil {
		return nil, fmt.Errorf("%w: %s", ErrRequest, fault.Message)
	}
	d.DecisionOnly, d.Peek = false, true
	return e.explain(d, shared, detectors), nil
}

// explain explains a described request. detectors is nil if none are asked.
func (e *Replayer) explain(d *checkapi.Described, shared *cluster.Shared, detectors *checker.Checker) *explain.Explanation {
	ctx, rules := d.HTTP.Context(), e.stages.Policies.Rules()
	req := e.parse(ctx, d.Request, rules)
	from := e.stages.Resolve(d.HTTP, req, rules, request.Principal{}, shared.Hasher())
	out := &explain.Explanation{
		Bundle: rules.Version(), Source: e.stages.Policies.Source(), Format: req.Provider.Name(), Upstream: req.Target.Upstream, Model: req.Model(),
		Tenant: from.Identity.GetTenant(), Project: from.Identity.GetProject(), Caller: from.Identity.GetCaller(), Session: from.Identity.GetSession(),
		Uninspected: req.Uninspected, Policies: []explain.Policy{},
	}
	switch operator := override.Decide(shared.Overrides(), rules.Set, req, &from, e.stages.Now()); {
	case operator.Stops():
		out.Killed = operator.Message()
		return out
	case operator.Exempt != "":
		out.Exempt = operator.Exempt
		return out
	}
	c := &explain.Case{Policies: rules.Set, Request: req, Subject: &from}
	c.Evidence = e.stages.Evidence(ctx, req, &from, rules, nil)
	if detectors != nil && c.Evidence.Check != nil {
		var err error
		if c.Decision, _, err = detectors.Check(ctx, c.Evidence.Check); err != nil {
			out.Unasked = ask.Undecided(err)
		}
		out.Live = err == nil
	}
	out.Policies = explain.Policies(c)
	return out
}

// join reads the state that the gateways of a cluster share, and returns it with a checker
// for the cluster's detectors that works until the context ends.
func (e *Replayer) join(ctx context.Context, js jetstream.JetStream, trust seal.Trust) (*cluster.Shared, *checker.Checker, error) {
	shared := cluster.New(e.hashKey, trust, e.stages.Now, slog.New(slog.DiscardHandler))
	bundle, err := shared.Read(ctx, js)
	if err != nil {
		return nil, nil, err
	}
	if bundle != nil {
		if err := e.stages.Policies.LoadPushed(bundle); err != nil {
			return nil, nil, fmt.Errorf("read the pushed bundle: %w", err)
		}
	}
	conn := natskit.Borrow(js)
	context.AfterFunc(ctx, conn.Close)
	return shared, checker.New(conn, e.timeout, e.stages.Now, prometheus.NewRegistry()), nil
}
