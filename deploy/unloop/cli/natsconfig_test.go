package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/unloop/unloop/schemas/kit/natstest"
)

// A new user's way: configuration, server, streams, and a command as the operator.
func TestNATSConfigurationRunsAServer(t *testing.T) {
	t.Parallel()
	dir, addr := filepath.Join(t.TempDir(), "nats"), natstest.FreeAddr(t)
	code, out, errOut := command(t, "nats", "config", dir, "--tls", "--host", addr, "--monitor-port", "0")
	if code != 0 || !strings.Contains(out, "nats-server -c "+filepath.Join(dir, "nats-1.conf")) {
		t.Fatalf("code %d: %s%s", code, out, errOut)
	}
	if code, _, errOut := command(t, "nats", "config", dir); code != 1 || !strings.Contains(errOut, "--force") {
		t.Errorf("again: code %d, %s", code, errOut)
	}
	if code, _, errOut := command(t, "nats", "config", dir+"3", "--nodes", "3"); code != 1 || !strings.Contains(errOut, "--tls") {
		t.Errorf("a cluster without certificates: code %d, %s", code, errOut)
	}
	opts, err := server.ProcessConfigFile(filepath.Join(dir, "nats-1.conf"))
	if err != nil {
		t.Fatal(err)
	}
	opts.NoSigs, opts.NoLog = true, true
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	flags := envFlags(t, filepath.Join(dir, "operator.env"))
	if code, out, errOut := command(t, append([]string{"nats", "init"}, flags...)...); code != 0 || strings.Count(out, "created") != 14 {
		t.Fatalf("init: code %d, %s%s", code, out, errOut)
	}
	if code, out, errOut := command(t, append([]string{"nats", "init"}, flags...)...); code != 0 || strings.Count(out, "as it was") != 14 {
		t.Errorf("init again: code %d, %s%s", code, out, errOut)
	}
	if code, _, errOut := command(t, append([]string{"loops"}, flags...)...); code != 0 {
		t.Errorf("loops: code %d, %s", code, errOut)
	}
	if code, _, errOut := command(t, "loops", "--nats", "tls://"+addr, "--nats-tls-ca", filepath.Join(dir, "ca.pem"), "--nats-nkey", filepath.Join(dir, "missing")); code != 1 || !strings.Contains(errOut, "--nats-nkey") {
		t.Errorf("a missing key: code %d, %s", code, errOut)
	}
}

// envFlags returns the variables in a file as flags.
func envFlags(t *testing.T, file string) (flags []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		flag := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "UNLOOP_")), "_", "-")
		if _, err := strconv.Atoi(value); flag == "replicas" && err == nil {
			continue // services have it
		}
		flags = append(flags, "--"+flag, value)
	}
	return flags
}
