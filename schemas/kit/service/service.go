// Package service has what every Unloop process needs around its services: dependencies and
// readiness, the admin port, flags, logs, signals and the exit code.
//
// It knows no service by name.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/seal"
	"github.com/unloop/unloop/schemas/kit/tracing"
)

// Deps are the dependencies of a service; its settings are in its own Config.
type Deps struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// NATS may be disconnected at any time, even at the start.
	NATS *natskit.Conn
	// InProcess passes requests to services of the same process; nil if each has its own
	// process.
	InProcess *natskit.InProcess
	// Traces makes the spans of the service; nil for none.
	Traces *tracing.Tracer
	// Layout says how the service creates missing streams.
	Layout natskit.Layout
	// Trust verifies operators' records.
	Trust seal.Trust
}

// Service is a part of Unloop. Run is called once, and returns nil after the context has
// ended and the work in flight is finished.
type Service interface {
	Run(ctx context.Context) error
	Readiness() *Readiness
}

// StreamUser is a service that needs only some streams; any other service needs all.
type StreamUser interface {
	// Streams returns the streams that the service needs, and others that it creates if they
	// are missing.
	Streams() (needed, others []string)
}

// LayoutOf returns the layout of the streams of a service.
func LayoutOf(svc Service, layout natskit.Layout) natskit.Layout {
	if u, ok := svc.(StreamUser); ok {
		needed, others := u.Streams()
		return layout.Of(needed, others...)
	}
	return layout
}

// Remarker is a service with remarks for operators besides its readiness.
type Remarker interface {
	// Remarks returns problems that an operator should fix although the service works.
	Remarks() []string
}

// remarksOf returns the remarks of a service.
func remarksOf(svc Service) []string {
	if r, ok := svc.(Remarker); ok {
		return r.Remarks()
	}
	return nil
}

// Named is a service with its name in logs and at /readyz.
type Named struct {
	Name string
	Service
}

// RunAll runs services until the context ends or one of them fails, which stops the
// others. It returns when all have returned.
func RunAll(ctx context.Context, services ...Named) error {
	TuneRuntime()
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range services {
		group.Go(func() error {
			if err := s.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("run %s: %w", s.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}
