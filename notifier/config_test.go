package notifier_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas/kit/service"
)

func TestDefaultConfig(t *testing.T) {
	t.Parallel()
	want := notifier.Config{
		WebhookSince: "0s", WebhookTimeout: 15 * time.Second,
		WebhookRetry: []time.Duration{
			5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
		},
		WebhookConcurrency: 8, WebhookGrace: 3 * time.Second, Dashboard: true,
	}
	got := notifier.DefaultConfig()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("validate: %v", err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	secretFile := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secretFile, []byte(string(secret)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(*notifier.Config)
		// faults are what the error says; none means valid.
		faults []string
	}{
		{"public address", func(c *notifier.Config) { c.Webhook = "https://93.184.215.14/hook" }, nil},
		{"name", func(c *notifier.Config) { c.Webhook = "https://example.com/hook?x=1" }, nil},
		{"name without a secret", func(c *notifier.Config) { c.Webhook, c.WebhookSecret = "https://example.com", "" }, nil},
		{"allowed loopback", func(c *notifier.Config) { c.Webhook = "http://127.0.0.1:9000" }, nil},
		{"allowed by its address", func(c *notifier.Config) {
			c.Webhook, c.AllowCIDR = "http://10.0.0.7/", []string{" 10.0.0.7"}
		}, nil},
		{"allowed IPv6", func(c *notifier.Config) {
			c.Webhook, c.AllowCIDR = "http://[fd00::7]:9000/", []string{"fd00::/8"}
		}, nil},
		{"loopback", func(c *notifier.Config) { c.Webhook, c.AllowCIDR = "http://127.0.0.1:9000", nil }, []string{"--allow-cidr 127.0.0.1/32"}},
		{"localhost", func(c *notifier.Config) { c.Webhook, c.AllowCIDR = "http://localhost:9000", nil }, []string{"--allow-cidr 127.0.0.1/32"}},
		{"IPv6 loopback", func(c *notifier.Config) { c.Webhook, c.AllowCIDR = "http://[::1]:9000", nil }, []string{"--allow-cidr ::1/128"}},
		{"IPv4 in IPv6", func(c *notifier.Config) { c.Webhook, c.AllowCIDR = "http://[::ffff:10.0.0.1]", nil }, []string{"--allow-cidr 10.0.0.1/32"}},
		{"no URL", func(c *notifier.Config) { c.Webhook = "http://s3cret\x7f" }, []string{"--webhook is no URL"}},
		{"several", func(c *notifier.Config) {
			c.WebhookTo = []string{"https://example.com", " project=a  tenant=b https://example.com/hook"}
		}, nil},
		{"another one alone", func(c *notifier.Config) { c.Webhook, c.WebhookTo = "", []string{"https://example.com"} }, nil},
		{"another one without a URL", func(c *notifier.Config) { c.WebhookTo = []string{"", "project=a", "tenant=s3cret ftp://s3cret"} },
			[]string{"--webhook-to is empty", "--webhook-to is no URL"}},
		{"another one with a typo", func(c *notifier.Config) {
			c.WebhookTo = []string{"projekt=s3cret https://example.com", "project= https://example.com"}
		},
			[]string{"--webhook-to: only project=NAME, tenant=NAME and secret-file=FILE"}},
		{"another one that is private", func(c *notifier.Config) { c.WebhookTo = []string{"http://10.9.9.9"}; c.AllowCIDR = nil }, []string{"--webhook-to leads to the private address 10.9.9.9"}},
		{"a secret that is away", func(c *notifier.Config) { c.WebhookTo = []string{"secret-file=/nowhere/at/all https://example.com"} }, []string{"--webhook-to secret-file: read the secret"}},
		{"no scheme", func(c *notifier.Config) { c.Webhook = "example.com/s3cret" }, []string{"--webhook is no URL"}},
		{"other scheme", func(c *notifier.Config) { c.Webhook = "ftp://example.com/s3cret" }, []string{"--webhook is no URL"}},
		{"no host", func(c *notifier.Config) { c.Webhook = "https:///s3cret" }, []string{"--webhook is no URL"}},
		{"secret of plain text", func(c *notifier.Config) { c.WebhookSecret = "s3cret" }, []string{"--webhook-secret: ", "openssl rand"}},
		{"secret in a file", func(c *notifier.Config) { c.WebhookSecret, c.WebhookSecretFile = "", secretFile }, nil},
		{"secret in a file that is away", func(c *notifier.Config) { c.WebhookSecret, c.WebhookSecretFile = "", "/nowhere/at/all" },
			[]string{"--webhook-secret-file: read the secret"}},
		{"file that has no secret", func(c *notifier.Config) { c.WebhookSecret, c.WebhookSecretFile = "", "config.go" },
			[]string{"--webhook-secret-file: ", "openssl rand"}},
		{"secret twice", func(c *notifier.Config) { c.WebhookSecretFile = secretFile }, []string{"--webhook-secret and --webhook-secret-file are both set"}},
		{"file without a webhook", func(c *notifier.Config) { c.Webhook, c.WebhookSecret, c.WebhookSecretFile = "", "", secretFile },
			[]string{"nothing to sign"}},
		{"secret without a webhook", func(c *notifier.Config) { c.Webhook = "" }, []string{"is set, but there is nothing to sign"}},
		{"no network", func(c *notifier.Config) { c.AllowCIDR = []string{"10.0.0.0/8", "home", "::ffff:10.0.0.0/104"} },
			[]string{`--allow-cidr "home"`, `--allow-cidr "::ffff:10.0.0.0/104"`}},
		{"several at once", func(c *notifier.Config) {
			c.Webhook, c.WebhookSecret, c.AllowCIDR = "s3cret", "s3cret", []string{"x"}
			c.WebhookTimeout, c.WebhookSince, c.WebhookRetry = 0, "-1h", []time.Duration{0}
			c.WebhookConcurrency, c.WebhookGrace = 0, -1
		}, []string{
			"--webhook is", "--webhook-secret", "--allow-cidr", "--webhook-timeout", "--webhook-since", "--webhook-retry",
			"--webhook-concurrency", "--webhook-grace",
		}},
		{"too much", func(c *notifier.Config) { c.WebhookTimeout, c.WebhookConcurrency = time.Hour, 1000 },
			[]string{"--webhook-timeout", "--webhook-concurrency"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig("https://example.com/hook")
			tt.change(&cfg)
			err := cfg.Validate()
			if (err == nil) != (len(tt.faults) == 0) {
				t.Fatalf("got %v", err)
			}
			for _, fault := range tt.faults {
				if !strings.Contains(err.Error(), fault) {
					t.Errorf("got %q, want %q in it", err, fault)
				}
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows a secret: %v", err)
			}
			if err != nil {
				if _, err := notifier.New(cfg, service.Deps{}); err == nil {
					t.Error("New takes what Validate refuses")
				}
			}
		})
	}
}

func TestASecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	cfg := testConfig("https://example.com")
	var logged strings.Builder
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "config", cfg, "secret", cfg.WebhookSecret)
	encoded, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{
		fmt.Sprint(cfg), fmt.Sprintf("%+v", cfg), fmt.Sprintf("%#v", cfg), fmt.Sprintf("%q", cfg.WebhookSecret), string(encoded), logged.String(),
	} {
		if strings.Contains(out, string(secret)) || !strings.Contains(out, "[hidden]") {
			t.Errorf("printed as %s", out)
		}
	}
}

// A secret on the command line is told of, one in a variable or a file is not.
func TestASecretOnTheCommandLineIsTold(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		arg  string
		want []string
	}{
		{"--webhook-secret=" + string(secret), []string{"--webhook-secret"}},
		{"--webhook-secret-file=" + file, nil},
	} {
		var cfg notifier.Config
		parser, err := service.NewParser(&cfg, "notifier", "")
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.Parse([]string{"--webhook=https://example.com", tt.arg})
		if err != nil {
			t.Fatal(err)
		}
		if got := service.ShownSecrets(parsed); !slices.Equal(got, tt.want) {
			t.Errorf("%s: told of %q, want %q", tt.arg, got, tt.want)
		}
	}
}

// TestFlagsAndVariables can't run in parallel: it sets variables.
func TestFlagsAndVariables(t *testing.T) {
	t.Setenv("UNLOOP_WEBHOOK", "https://example.com/hook")
	t.Setenv("UNLOOP_WEBHOOK_SECRET", string(secret))
	t.Setenv("UNLOOP_ALLOW_CIDR", "10.0.0.0/8,fd00::/8")
	var cli struct {
		service.Process `embed:""`
		service.Cluster `embed:""`
		Notifier        notifier.Config `embed:""`
	}
	parser, err := service.NewParser(&cli, "notifier", "")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse([]string{"--webhook-timeout=2s", "--webhook-retry", "1s,2s"})
	if err != nil {
		t.Fatal(err)
	}
	if shown := service.ShownSecrets(parsed); len(shown) > 0 {
		t.Errorf("%q came from variables", shown)
	}
	want := notifier.DefaultConfig()
	want.Webhook, want.WebhookSecret = "https://example.com/hook", secret
	want.AllowCIDR = []string{"10.0.0.0/8", "fd00::/8"}
	want.WebhookTimeout, want.WebhookRetry = 2*time.Second, []time.Duration{time.Second, 2 * time.Second}
	if diff := cmp.Diff(want, cli.Notifier); diff != "" {
		t.Error(diff)
	}
	environ := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return !strings.HasPrefix(entry, "UNLOOP_WEBHOOK") && !strings.HasPrefix(entry, "UNLOOP_ALLOW")
	})
	if unknown := service.UnknownEnv(parser, environ); len(unknown) != 0 {
		t.Errorf("unknown variables: %v", unknown)
	}
	if _, err := parser.Parse([]string{"--allow-cidr=10.0.0.0/8", "--allow-cidr=fd00::/8"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.AllowCIDR, cli.Notifier.AllowCIDR); diff != "" {
		t.Error(diff)
	}
}
