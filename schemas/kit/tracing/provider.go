package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// flushTimeout bounds the export of the last spans at shutdown.
const flushTimeout = 3 * time.Second

// scope is the prefix of instrumentation scopes; the name of a service follows.
const scope = "github.com/unloop/unloop/"

// Provider exports the spans of a process. The nil Provider has no tracers.
type Provider struct{ sdk *sdk.TracerProvider }

// FromEnv returns the provider that the variables OTEL_… describe; nil if they ask for no
// traces. name is the default of service.name. An unsupported value is logged and turns
// traces off: other programs share these variables.
func FromEnv(ctx context.Context, name, version string, log *slog.Logger) *Provider {
	kind, err := exporterKind(os.Getenv)
	if err != nil {
		log.Warn("no traces are sent", "error", err)
	}
	if kind == "" {
		return nil
	}
	var exporter sdk.SpanExporter
	if kind == protocolGRPC {
		exporter, err = otlptracegrpc.New(ctx)
	} else {
		exporter, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		log.Warn("no traces are sent", "error", fmt.Errorf("make the exporter of OTEL_EXPORTER_OTLP_…: %w", err))
		return nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces were not sent", "error", err) }))
	log.Info("traces are sent", "protocol", kind)
	return New(ctx, exporter, name, version)
}

// New returns a provider for an exporter. Sampling, limits and batches obey the variables
// OTEL_….
func New(ctx context.Context, exporter sdk.SpanExporter, name, version string) *Provider {
	// Invalid attributes in the environment are ignored.
	described, _ := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", name), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	return &Provider{sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(described))}
}

// Tracer returns the tracer of a service; nil if the provider is nil.
func (p *Provider) Tracer(service string) *Tracer {
	if p == nil {
		return nil
	}
	return &Tracer{p.sdk.Tracer(scope + service)}
}

// Flush exports the spans that have ended.
func (p *Provider) Flush(ctx context.Context) error {
	if p == nil {
		return nil
	}
	return p.sdk.ForceFlush(ctx)
}

// Close exports the remaining spans, within flushTimeout.
func (p *Provider) Close() {
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := p.sdk.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// Protocols of OTLP.
const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// exporterKind returns the protocol that the environment asks for; "" for no traces.
func exporterKind(env func(string) string) (string, error) {
	first := func(names ...string) string {
		for _, name := range names {
			if value := strings.TrimSpace(env(name)); value != "" {
				return value
			}
		}
		return ""
	}
	if strings.EqualFold(first("OTEL_SDK_DISABLED"), "true") {
		return "", nil
	}
	switch exporter := first("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return "", nil
	case "":
		if first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT") == "" {
			return "", nil
		}
	case "otlp":
	default:
		return "", fmt.Errorf("OTEL_TRACES_EXPORTER is %q; use otlp or none", exporter)
	}
	switch protocol := first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol {
	case "", protocolHTTP:
		return protocolHTTP, nil
	case protocolGRPC:
		return protocolGRPC, nil
	default:
		return "", fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q; use %s or %s", protocol, protocolHTTP, protocolGRPC)
	}
}
