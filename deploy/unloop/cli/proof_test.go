package cli

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/kit/natstest"
)

// Whatever listens where a gateway should is sent the agent's key only if it
// proves that this user runs it.
func TestExecTellsItsUsersGatewayFromAnImpostor(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	addr := natstest.FreeAddr(t)
	out, _ := background(t, "up", "--data-dir", "memory", "--listen", addr, "--admin", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0")
	out.await(t, "is ready")
	var said bytes.Buffer
	if !isOurs(t.Context(), "http://"+addr, streams{err: &said}) {
		t.Errorf("the user's own gateway is not known: %s", &said)
	}
	for name, handler := range map[string]http.HandlerFunc{
		"says that it is one": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"product":"unloop","service":"gateway","ready":true,"proof":""}`)
		},
		"relays to the real one": func(w http.ResponseWriter, r *http.Request) {
			res, err := http.Get("http://" + addr + r.URL.String())
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = res.Body.Close() }()
			_, _ = io.Copy(w, res.Body)
		},
	} {
		impostor := httptest.NewServer(handler)
		said.Reset()
		if isOurs(t.Context(), impostor.URL, streams{err: &said}) || !strings.Contains(said.String(), "cannot prove") {
			t.Errorf("an impostor that %s: %s", name, &said)
		}
		impostor.Close()
	}
}
