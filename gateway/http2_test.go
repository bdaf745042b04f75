package gateway

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/unloop/unloop/gateway/internal/edge/serve"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// overTLS makes a gateway speak TLS, and returns a client for it that speaks HTTP/2.
func overTLS(t *testing.T) (edit func(*Config), client *http.Client) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2 = true
	server.StartTLS() // whose certificate is for 127.0.0.1
	server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	must(t, err)
	files := serve.Certificate{File: filepath.Join(t.TempDir(), "tls.crt"), Key: filepath.Join(t.TempDir(), "tls.key")}
	must(t, os.WriteFile(files.File, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600))
	must(t, os.WriteFile(files.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	return func(cfg *Config) { cfg.TLS = files }, server.Client()
}

// stalled is a body that stops after one byte until its context ends.
type stalled struct {
	context.Context
	sent bool
}

func (s *stalled) Read(p []byte) (int, error) {
	if !s.sent {
		s.sent = true
		return copy(p, "{"), nil
	}
	<-s.Done()
	return 0, s.Err()
}

// Over one HTTP/2 connection, bodies of 1 to 8 MiB reach their upstream while all others
// wait for their answers there, and beside bodies that have stalled.
func TestLargeBodiesOverHTTP2HoldUpNoOthers(t *testing.T) {
	t.Parallel()
	for name, announced := range map[string]bool{"announced": true, "of unknown length": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const bodies = 8
			s := natstest.Start(t)
			url, came, answer := holding(t)
			deciding(t, s, func(*checkpb.Check) *checkpb.Decision { return &checkpb.Decision{} })
			tls, client := overTLS(t)
			g := following(t, s, at(url), tls, func(cfg *Config) { cfg.MaxBodyMemory = 256 << 20 })
			run(t, g)
			statuses := make(chan string, bodies)
			send := func(ctx context.Context, key int, body io.Reader, length int) {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+g.Addr()+"/v1/chat/completions", body)
				must(t, err)
				req.ContentLength = -1
				if announced {
					req.ContentLength = int64(length)
				}
				req.Header.Set("Authorization", fmt.Sprint("Bearer sk-", key))
				go func() {
					res, err := client.Do(req)
					if err != nil {
						statuses <- err.Error()
						return
					}
					_ = res.Body.Close()
					statuses <- fmt.Sprint(res.StatusCode, " ", res.Proto)
				}()
			}
			stalling, stop := context.WithCancel(t.Context())
			for i := range 2 {
				send(stalling, -i, &stalled{Context: stalling}, 8<<20)
			}
			for i := range bodies {
				// The padding is outside of the prompt, which would take long to compare.
				begin := fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":"%d"}],"padding":"`, i)
				body := append(append(begin, bytes.Repeat([]byte("lorem ipsum "), (i+1)<<20/12-20)...), `"}`...)
				send(t.Context(), i+1, io.MultiReader(bytes.NewReader(body)), len(body))
			}
			for range bodies {
				select {
				case <-came:
				case early := <-statuses:
					t.Errorf("%s before all bodies reached the upstream", early)
				}
			}
			close(answer)
			for range bodies {
				if got, want := <-statuses, "200 HTTP/2.0"; got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
			stop()
			for range 2 {
				<-statuses
			}
		})
	}
}
