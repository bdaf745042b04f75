package service

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/access"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/status"
)

// paged is a service with pages, which say why they refuse changes.
type paged struct{ ready Readiness }

func (p *paged) Run(context.Context) error { return nil }
func (p *paged) Readiness() *Readiness     { return &p.ready }
func (p *paged) Describe(s *status.Status) { s.Bundle = &status.Bundle{Version: "7-aa"} }

func (p *paged) Site(refuse func() string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write([]byte("page;" + refuse()))
	})
}

// Pages are served beside the port's own paths; other machines may change something with
// a key alone.
func TestAServiceHasPagesOnTheAdminPort(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("a-key-of-some-length"), 0o600); err != nil {
		t.Fatal(err)
	}
	guard, err := AdminGuard([]string{"key:file:" + file})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		addr, key, want string
		guard           *access.Guard
	}{
		"loopback":              {"127.0.0.1:0", "", "page;", nil},
		"elsewhere":             {"0.0.0.0:0", "", "page;other machines", nil},
		"elsewhere with a key":  {"0.0.0.0:0", "a-key-of-some-length", "page;", guard},
		"elsewhere without one": {"0.0.0.0:0", "", "Unauthorized", guard},
	} {
		admin, err := NewAdmin(c.addr, access.Allowed{}, NewRegistry(), Named{Name: "paged", Service: &paged{}})
		if err != nil {
			t.Fatal(err)
		}
		admin.Require(c.guard)
		for path, want := range map[string]string{"/": c.want, "/any/path": c.want, "/healthz": "ok"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Header.Set(access.Header, c.key)
			w := httptest.NewRecorder()
			admin.server.Handler.ServeHTTP(w, r)
			if !strings.HasPrefix(w.Body.String(), want) {
				t.Errorf("%s: %s answers %q, want %q", name, path, w.Body, want)
			}
		}
		_ = admin.listener.Close()
	}
}

func TestAServiceReportsItsStatus(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	p, conn := &paged{}, server.Service()
	Attach(t.Context(), "paged", p, NewRegistry(), conn, natskit.Layout{})
	conn.Flush(10 * time.Second)
	ask := func() status.Status {
		t.Helper()
		msg, err := server.Conn().Request(schemas.SubjectStatus, nil, 10*time.Second)
		var s status.Status
		if err == nil {
			err = json.Unmarshal(msg.Data, &s)
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := ask(); s.Ready || !strings.Contains(s.Reason, "starting") || s.Service != "paged" || s.ID == "" || s.Version == "" || s.Bundle.Version != "7-aa" || s.Server == "" {
		t.Errorf("starting: %+v", s)
	}
	p.ready.Set(nil)
	if s := ask(); !s.Ready || s.Reason != "" {
		t.Errorf("ready: %+v", s)
	}
}
