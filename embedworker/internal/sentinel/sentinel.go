// Package sentinel serves Agent Sentinel's proxy: gRPC on a Unix socket,
// wire-compatible with that project's own sidecar. Its rule holds here: one match
// above the threshold, no least length, the text as given, the history of the
// tenant.
//
// It knows the protocol and the socket. A Checker decides what is a loop.
package sentinel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/unloop/unloop/embedworker/internal/compare"
	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/internal/semantic"
	"github.com/unloop/unloop/embedworker/internal/sentinel/embeddingpb"
	"github.com/unloop/unloop/embedworker/internal/vectors"
)

// serviceName is the name of the service on the wire.
const serviceName = "embedding.EmbeddingService"

// stopGrace bounds how long calls in flight may take when the server stops.
const stopGrace = 5 * time.Second

// ErrSocketInUse means that a live server answers on the socket already.
var ErrSocketInUse = errors.New("socket is in use")

// Checker answers queries.
type Checker interface {
	Check(ctx context.Context, q semantic.Query) (semantic.Answer, error)
}

// Config has the settings that Agent Sentinel documents.
type Config struct {
	Threshold float64
	Keep      int
	TTL       time.Duration
	StoreText bool
	// Called, if not nil, gets the result of each call: detected, clear or error.
	Called func(result string)
}

// Server serves the socket.
type Server struct {
	checker Checker
	config  Config
}

// New returns a server.
func New(c Checker, config Config) *Server { return &Server{checker: c, config: config} }

// Listen opens the socket, for this user only. It replaces the file of a server that is
// gone. It returns ErrSocketInUse for a live one, and does not touch a file that is not a
// socket.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("listen at --uds %s: %w", path, err)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen at --uds %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("listen at --uds %s: %w", path, err), ln.Close())
	}
	return ln, nil
}

// removeStale takes away a stale socket file.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at --uds %s: %w", path, err)
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("listen at --uds %s: the file is no socket", path)
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("%w: --uds %s", ErrSocketInUse, path), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: --uds %s: %w", ErrSocketInUse, path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("replace stale --uds %s: %w", path, err)
	}
	return nil
}

// Run serves until the context ends, then lets calls in flight finish.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	g := grpc.NewServer()
	g.RegisterService(&serviceDesc, s)
	healthy := health.NewServer()
	healthy.SetServingStatus(serviceName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(g, healthy)
	served := make(chan error, 1)
	go func() { served <- g.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	healthy.Shutdown()
	force := time.AfterFunc(stopGrace, g.Stop)
	defer force.Stop()
	g.GracefulStop()
	return <-served
}

// serviceDesc binds the one method to its name on the wire.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: serviceName,
	HandlerType: (*loopChecker)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "CheckLoop", Handler: handleCheckLoop}},
	Metadata:    "embedding/embedding.proto",
}

type loopChecker interface {
	CheckLoop(ctx context.Context, r *embeddingpb.CheckLoopRequest) (*embeddingpb.CheckLoopResponse, error)
}

//nolint:revive // the order of the arguments is gRPC's
func handleCheckLoop(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { // Run sets no interceptor
	r := new(embeddingpb.CheckLoopRequest)
	if err := decode(r); err != nil {
		return nil, err
	}
	return srv.(loopChecker).CheckLoop(ctx, r)
}

// CheckLoop implements the service. Bad requests get InvalidArgument, a dead
// store Unavailable, a failed inference Internal.
func (s *Server) CheckLoop(ctx context.Context, r *embeddingpb.CheckLoopRequest) (*embeddingpb.CheckLoopResponse, error) {
	out, err := s.checkLoop(ctx, r)
	if s.config.Called != nil {
		s.config.Called(resultOf(out, err))
	}
	return out, err
}

func resultOf(r *embeddingpb.CheckLoopResponse, err error) string {
	switch {
	case err != nil:
		return "error"
	case r.GetLoopDetected():
		return "detected"
	default:
		return "clear"
	}
}

func (s *Server) checkLoop(ctx context.Context, r *embeddingpb.CheckLoopRequest) (*embeddingpb.CheckLoopResponse, error) {
	a, err := s.checker.Check(ctx, semantic.Query{
		ScopeKind: "tenant", ScopeKey: r.GetTenantId(), Text: r.GetPrompt(),
		Rule: compare.Rule{Threshold: s.config.Threshold, MinMatches: 1, AnyDetails: true}, Keep: s.config.Keep, TTL: s.config.TTL, StoreText: s.config.StoreText,
	})
	if err != nil {
		return nil, status.Error(code(err), err.Error())
	}
	out := &embeddingpb.CheckLoopResponse{LoopDetected: a.Detected, MaxSimilarity: a.MaxSimilarity}
	if s.config.StoreText {
		out.SimilarPrompt = nearest(a)
	}
	return out, nil
}

// nearest is the remembered text that is most similar.
func nearest(a semantic.Answer) string {
	for _, f := range a.History {
		if f.Similarity == a.MaxSimilarity && utf8.ValidString(f.Text) {
			return f.Text
		}
	}
	return ""
}

func code(err error) codes.Code {
	switch {
	case errors.Is(err, semantic.ErrInvalid), errors.Is(err, embed.ErrEmpty), errors.Is(err, vectors.ErrInvalid):
		return codes.InvalidArgument
	case errors.Is(err, vectors.ErrUnavailable):
		return codes.Unavailable
	case errors.Is(err, embed.ErrBusy), errors.Is(err, embed.ErrClosed):
		return codes.ResourceExhausted
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	}
	return codes.Internal
}
