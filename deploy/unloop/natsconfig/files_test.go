package natsconfig_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/deploy/unloop/natsconfig"
	"github.com/unloop/unloop/schemas/kit/seal"
)

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// single is a configuration of one server with certificates.
func single(dir string) natsconfig.Config {
	return natsconfig.Config{
		Nodes:  []natsconfig.Node{{Name: "nats-1", Host: "nats.example", ClientPort: 4222}},
		Listen: "0.0.0.0", TLS: natsconfig.TLS{On: true, Names: []string{"10.0.0.1"}}, StoreDir: "/data", ServerDir: dir, ClientDir: "/run/unloop", Replicas: 1,
	}
}

// Secrets are readable by their owner alone, and nothing is overwritten by accident; keys
// are kept when the configuration is written again.
func TestFilesAreKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nats")
	cfg := single(dir)
	names, err := cfg.Write(dir, natsconfig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want := os.FileMode(0o644)
		if strings.HasSuffix(name, ".nk") || strings.HasSuffix(name, "-key.pem") {
			want = 0o600
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode().Perm(), want)
		}
	}
	const want = "UNLOOP_NATS=tls://nats.example:4222\nUNLOOP_NATS_NKEY=/run/unloop/gateway.nk\nUNLOOP_NATS_INBOX_PREFIX=_INBOX_gateway\nUNLOOP_NATS_TLS_CA=/run/unloop/ca.pem\nUNLOOP_REPLICAS=1\nUNLOOP_SEAL_KEY="
	by, err := seal.NewSigner(read(t, dir, natsconfig.SealSeedFile))
	if got := read(t, dir, "gateway.env"); err != nil || got != want+by.Public()+"\n" {
		t.Errorf("%v; gateway.env is\n%s, want\n%s", err, got, want+by.Public())
	}
	if got := read(t, dir, "operator.env"); !strings.Contains(got, "UNLOOP_SEAL_SEED=/run/unloop/seal.nk\n") {
		t.Errorf("operator.env is\n%s", got)
	}
	sealSeed := read(t, dir, natsconfig.SealSeedFile)
	seed, ca, cert := read(t, dir, "gateway.nk"), read(t, dir, "ca.pem"), read(t, dir, "nats-1.pem")
	if conf := read(t, dir, "nats-1.conf"); strings.Contains(conf, strings.TrimSpace(seed)) || !strings.Contains(conf, "/data") {
		t.Error("nats-1.conf has a secret, or no store")
	}
	if _, err := cfg.Write(dir, natsconfig.Options{}); !errors.Is(err, natsconfig.ErrExists) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("written again: %v", err)
	}
	if _, err := cfg.Write(dir, natsconfig.Options{Force: true}); err != nil {
		t.Fatal(err)
	}
	if read(t, dir, "gateway.nk") != seed || read(t, dir, "ca.pem") != ca || read(t, dir, "nats-1.pem") != cert || read(t, dir, natsconfig.SealSeedFile) != sealSeed {
		t.Error("--force made new keys or certificates")
	}
	cfg.TLS.Names = []string{"nats.other"}
	if _, err := cfg.Write(dir, natsconfig.Options{Force: true}); err != nil {
		t.Fatal(err)
	}
	if read(t, dir, "ca.pem") != ca || read(t, dir, "nats-1.pem") == cert {
		t.Error("a certificate without the name was kept, or its authority was not")
	}
	if _, err := cfg.Write(dir, natsconfig.Options{NewKeys: true}); err != nil {
		t.Fatal(err)
	}
	if read(t, dir, "gateway.nk") == seed || read(t, dir, "ca.pem") == ca || read(t, dir, natsconfig.SealSeedFile) == sealSeed {
		t.Error("--new-keys kept keys or certificates")
	}
}

// Every fault is reported, with its flag.
func TestConfigurationsThatCantBe(t *testing.T) {
	t.Parallel()
	for want, edit := range map[string]func(*natsconfig.Config){
		"--nodes 2": func(c *natsconfig.Config) { c.Nodes = append(c.Nodes, c.Nodes[0]) },
		"--tls": func(c *natsconfig.Config) {
			c.TLS = natsconfig.TLS{}
			c.Nodes = append(c.Nodes, c.Nodes[0], c.Nodes[0])
		},
		"go together":      func(c *natsconfig.Config) { c.TLS = natsconfig.TLS{Cert: "c", Key: "k"} },
		"--tls-cert names": func(c *natsconfig.Config) { c.TLS = natsconfig.TLS{On: true, CA: "a", Cert: "c", Key: "k"} },
		"--replicas 3":     func(c *natsconfig.Config) { c.Replicas = 3 },
		"--domain":         func(c *natsconfig.Config) { c.Domain = "a.b" },
		"--max-file-store": func(c *natsconfig.Config) { c.MaxFileStore = "much" },
		"--host":           func(c *natsconfig.Config) { c.Nodes[0].Host = "a b" },
	} {
		cfg := single("/x")
		edit(&cfg)
		if err := cfg.Validate(); !errors.Is(err, natsconfig.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
