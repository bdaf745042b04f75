// Package service is the life of an Unloop process around its services: their
// dependencies and readiness, the admin port, flags, logs, signals and the exit code.
//
// It knows no service by name; the binaries put them together.
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

// Deps are the dependencies of every service; its settings are in its own Config.
type Deps struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// NATS may be disconnected at any time, also at the start.
	NATS *natskit.Conn
	// InProcess takes requests to services of the same process; nil if each is a
	// process of its own.
	InProcess *natskit.InProcess
	// Traces makes the spans of the service; nil sends none.
	Traces *tracing.Tracer
	// Layout is how a service creates missing streams.
	Layout natskit.Layout
	// Trust says which records of operators are good.
	Trust seal.Trust
}

// Service is a part of Unloop. Run returns nil when the context has ended and the work in
// flight is finished; it is called once.
type Service interface {
	Run(ctx context.Context) error
	Readiness() *Readiness
}

// StreamUser is a service that needs only some streams; any other service needs all.
type StreamUser interface {
	// Streams returns the names of the streams that the service needs, and of others that
	// it creates if they are missing.
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

// Remarker is a service that is ready, or not, and has something to tell operators besides.
type Remarker interface {
	// Remarks returns what an operator should mend although the service does its work.
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
