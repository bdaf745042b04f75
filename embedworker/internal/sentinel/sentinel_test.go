package sentinel_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/internal/semantic"
	"github.com/unloop/unloop/embedworker/internal/sentinel"
	"github.com/unloop/unloop/embedworker/internal/sentinel/embeddingpb"
	"github.com/unloop/unloop/embedworker/internal/vectors"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// config is the source's own.
func config() sentinel.Config {
	return sentinel.Config{Threshold: .95, Keep: 5, TTL: time.Hour}
}

func checker(t *testing.T) (*semantic.Checker, *natstest.Server) {
	t.Helper()
	server := natstest.StartBare(t)
	store := vectors.NewKV(server.Service(), natskit.Layout{Memory: true}, time.Now, nil)
	return semantic.New(embed.NewLexical(), store, semantic.Observer{}), server
}

// serve returns a client of a server on a socket of its own.
func serve(t *testing.T, c sentinel.Checker, config sentinel.Config) *grpc.ClientConn {
	t.Helper()
	// A socket's path is short: the test's own folder may be too deep.
	dir, err := os.MkdirTemp("", "uds")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "embedding-sidecar.sock")
	ln, err := sentinel.Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sentinel.New(c, config).Run(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("serving ended with %v", err)
		}
	})
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func call(t *testing.T, conn *grpc.ClientConn, tenant, prompt string) (*embeddingpb.CheckLoopResponse, error) {
	t.Helper()
	out := new(embeddingpb.CheckLoopResponse)
	err := conn.Invoke(t.Context(), "/embedding.EmbeddingService/CheckLoop",
		&embeddingpb.CheckLoopRequest{TenantId: tenant, Prompt: prompt}, out)
	return out, err
}

func TestTheSourcesRuleHolds(t *testing.T) {
	t.Parallel()
	c, _ := checker(t)
	conn := serve(t, c, config())
	for i, want := range []struct {
		tenant, prompt string
		detected       bool
		least, most    float64
	}{
		{"acme", "go on", false, 0, 0},
		{"acme", "go on", true, .9999, 1},
		{"acme", "tell me about volcanoes in Iceland", false, .3, .7},
		{"other", "go on", false, 0, 0},
	} {
		out, err := call(t, conn, want.tenant, want.prompt)
		if err != nil {
			t.Fatal(err)
		}
		if out.GetLoopDetected() != want.detected || out.GetMaxSimilarity() < want.least || out.GetMaxSimilarity() > want.most {
			t.Errorf("call %d: %v, want %+v", i, out, want)
		}
		if out.GetSimilarPrompt() != "" {
			t.Errorf("call %d: a text that nobody asked to keep: %q", i, out.GetSimilarPrompt())
		}
	}
}

func TestTheSimilarPromptComesBackWhereTextsAreStored(t *testing.T) {
	t.Parallel()
	c, _ := checker(t)
	cfg := config()
	cfg.StoreText = true
	conn := serve(t, c, cfg)
	for _, prompt := range []string{"Which planets have rings?", "How deep is the sea?"} {
		if _, err := call(t, conn, "acme", prompt); err != nil {
			t.Fatal(err)
		}
	}
	out, err := call(t, conn, "acme", "Please, which planets have rings?")
	if err != nil || out.GetSimilarPrompt() != "Which planets have rings?" {
		t.Errorf("got %v, %v", out, err)
	}
}

func TestHealthIsTheStandardOne(t *testing.T) {
	t.Parallel()
	c, _ := checker(t)
	client := grpc_health_v1.NewHealthClient(serve(t, c, config()))
	for _, name := range []string{"", "embedding.EmbeddingService"} {
		out, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
		if err != nil || out.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", name, out, err)
		}
	}
}

// failing fails as it is told.
type failing struct{ err error }

func (f failing) Check(context.Context, semantic.Query) (semantic.Answer, error) {
	return semantic.Answer{}, f.err
}

func TestErrorsHaveTheirCodes(t *testing.T) {
	t.Parallel()
	c, server := checker(t)
	conn := serve(t, c, config())
	for name, r := range map[string][2]string{"no tenant": {"", "a prompt"}, "no prompt": {"acme", ""}, "no word": {"acme", "..."}} {
		if _, err := call(t, conn, r[0], r[1]); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %v, want InvalidArgument", name, err)
		}
	}
	server.Stop()
	if _, err := call(t, conn, "acme", "a prompt"); status.Code(err) != codes.Unavailable {
		t.Errorf("dead store: got %v, want Unavailable", err)
	}
	for want, cause := range map[codes.Code]error{
		codes.Internal: embed.ErrInference, codes.ResourceExhausted: embed.ErrBusy, codes.DeadlineExceeded: context.DeadlineExceeded,
	} {
		if _, err := call(t, serve(t, failing{cause}, config()), "acme", "a prompt"); status.Code(err) != want {
			t.Errorf("%v: got %v, want %v", cause, err, want)
		}
	}
}

func TestStaleSocketsAreReplacedAndLiveOnesAreNot(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "uds")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	ln, err := sentinel.Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket is %v, %v", info, err)
	}
	if _, err := sentinel.Listen(t.Context(), path); !errors.Is(err, sentinel.ErrSocketInUse) {
		t.Errorf("live socket: got %v, want ErrSocketInUse", err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // as after a kill
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	ln, err = sentinel.Listen(t.Context(), path)
	if err != nil {
		t.Fatalf("stale socket: %v", err)
	}
	_ = ln.Close()
	plain := filepath.Join(dir, "file")
	if err := os.WriteFile(plain, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sentinel.Listen(t.Context(), plain); err == nil {
		t.Error("a plain file was replaced")
	}
}
