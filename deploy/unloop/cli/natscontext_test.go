package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas/kit/natstest"
)

// Another user of the machine has no token; this user's commands, and the nats
// CLI through its context, find it.
func TestNATSIsForItsUserAlone(t *testing.T) {
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	addr := "nats://" + natstest.FreeAddr(t)
	out, _ := background(t, "up", "--data-dir", "memory", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--nats-listen", strings.TrimPrefix(addr, "nats://"))
	out.await(t, "is ready")
	if _, err := nats.Connect(addr); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without the token: %v, want an authorization violation", err)
	}
	if code, _, errOut := command(t, "loops", "--nats", addr); code != 0 {
		t.Errorf("loops: code %d, %s", code, errOut)
	}
	if code, out, errOut := command(t, "nats", "context", "--nats", addr); code != 0 || !strings.Contains(out, "nats --context unloop") {
		t.Fatalf("nats context: code %d, %s %s", code, out, errOut)
	}
	file := filepath.Join(config, "nats", "context", "unloop.json")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var made natsContext
	if err := json.Unmarshal(data, &made); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the context's mode: %v, %v", info, err)
	}
	nc, err := nats.Connect(made.URL, nats.Token(made.Token))
	if err != nil {
		t.Fatalf("with the context: %v", err)
	}
	nc.Close()
}
