package notifier

import (
	"cmp"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/unloop/unloop/notifier/internal/pull"
	"github.com/unloop/unloop/schemas/kit/service"
)

// Secret is text that is neither printed nor logged.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "[hidden]"
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Config says where events go and how they are delivered. Its tags are the command's flags.
type Config struct {
	Notify             string          `placeholder:"FILE" help:"File of endpoints, routes and throttles (see unloop notify schema), reloaded when it changes."`
	Webhook            string          `placeholder:"URL" help:"URL for events, which are sent with POST."`
	WebhookTo          []string        `sep:"none" placeholder:"[project=P] [tenant=T] [secret-file=F] URL" help:"Further URL for events, optionally only those of one project or tenant. Repeatable."`
	WebhookSecret      Secret          `secret:"" placeholder:"whsec_…" help:"Secret for signing deliveries (Standard Webhooks): whsec_ and 24 to 64 bytes in base64. The process list shows it; prefer the variable or --webhook-secret-file."`
	WebhookSecretFile  string          `placeholder:"FILE" help:"File with the secret of --webhook-secret."`
	AllowCIDR          []string        `name:"allow-cidr" placeholder:"CIDR" help:"Private network that endpoints may point to, such as 10.0.0.0/8. Repeatable."`
	WebhookSince       string          `default:"0s" placeholder:"DURATION" help:"How old the first events of a new endpoint may be, such as 24h, or all. Later starts continue where the endpoint stopped."`
	WebhookTimeout     time.Duration   `default:"15s" help:"Timeout of one attempt."`
	WebhookRetry       []time.Duration `default:"5s,5m,30m,2h,5h,10h,14h,20h,24h" help:"Waits between attempts to deliver a message. After the last attempt it becomes a dead letter."`
	WebhookConcurrency int             `default:"8" help:"How many deliveries to one endpoint run at the same time."`
	Dashboard          bool            `default:"true" negatable:"" help:"Serve the dashboard and its API on the admin port."`
	// Page is the address of the dashboard, to which messages link; "" for none.
	Page string `kong:"-"`

	WebhookGrace time.Duration `default:"3s" help:"How long deliveries may take to finish at shutdown; unfinished ones are sent again later."`
}

// Bounds of the flags' values.
const (
	maxTimeout     = 5 * time.Minute
	maxConcurrency = 512
	maxWaits       = 50
	maxWait        = 7 * 24 * time.Hour
)

// DefaultConfig delivers nothing until Webhook is set.
func DefaultConfig() Config { return service.Defaults[Config]() }

// Validate returns all faults, joined. None of them contains a secret, or more of a URL than
// its host.
func (c Config) Validate() error {
	_, secretErr := c.key()
	if !c.hasWebhooks() && (c.WebhookSecret != "" || c.WebhookSecretFile != "") { // whoever set it expects deliveries
		secretErr = errors.New("--webhook-secret or --webhook-secret-file is set, but there is nothing to sign; set --webhook as well, or drop it")
	}
	_, cidrErr := c.allowed()
	_, endpointErr := c.endpoints()
	return errors.Join(endpointErr, cidrErr, secretErr, c.validateNumbers())
}

// delivers reports whether endpoints are configured.
func (c Config) delivers() bool { return c.hasWebhooks() || c.Notify != "" }

func (c Config) hasWebhooks() bool { return c.Webhook != "" || len(c.WebhookTo) > 0 }

// since returns how old the first events of a new endpoint may be.
func (c Config) since() (time.Duration, error) {
	if c.WebhookSince == "all" {
		return pull.All, nil
	}
	since, err := time.ParseDuration(cmp.Or(c.WebhookSince, "0s"))
	if err == nil && since < 0 {
		err = errors.New("less than 0")
	}
	return since, err
}

func (c Config) validateNumbers() error {
	var faults service.Faults
	faults.Check(c.WebhookTimeout > 0 && c.WebhookTimeout <= maxTimeout,
		"--webhook-timeout is %s; set it above 0, to at most %s", c.WebhookTimeout, maxTimeout)
	_, sinceErr := c.since()
	faults.Check(sinceErr == nil, "--webhook-since is %q; set it to a duration such as 24h, or to all", c.WebhookSince)
	faults.Check(len(c.WebhookRetry) <= maxWaits, "--webhook-retry has %d waits; name at most %d", len(c.WebhookRetry), maxWaits)
	for _, wait := range c.WebhookRetry {
		faults.Check(wait > 0 && wait <= maxWait, "--webhook-retry has a wait of %s; set each above 0, to at most %s", wait, maxWait)
	}
	faults.Check(c.WebhookConcurrency > 0 && c.WebhookConcurrency <= maxConcurrency,
		"--webhook-concurrency is %d; set it from 1 to %d", c.WebhookConcurrency, maxConcurrency)
	faults.Check(c.WebhookGrace >= 0, "--webhook-grace is %s; set it to 0 or more", c.WebhookGrace)
	return faults.Err()
}

// key returns the signing key of endpoints without a secret of their own; nil if none is
// configured.
func (c Config) key() ([]byte, error) {
	switch {
	case c.WebhookSecret != "" && c.WebhookSecretFile != "":
		return nil, errors.New("--webhook-secret and --webhook-secret-file are both set; drop one of them")
	case c.WebhookSecretFile != "":
		return readSecret("--webhook-secret-file", c.WebhookSecretFile)
	case c.WebhookSecret != "":
		return decodeSecret("--webhook-secret", string(c.WebhookSecret))
	default:
		return nil, nil
	}
}

// allowed returns the networks of AllowCIDR. An address is a network of its own.
func (c Config) allowed() (allowed []netip.Prefix, err error) {
	var faults service.Faults
	for _, text := range c.AllowCIDR {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if addr, addrErr := netip.ParseAddr(strings.TrimSpace(text)); addrErr == nil {
			addr = addr.Unmap()
			prefix, err = addr.Prefix(addr.BitLen())
		}
		faults.Check(err == nil && !prefix.Addr().Is4In6(), "--allow-cidr %q is no network; write it like 10.0.0.0/8 or fd00::/8", text)
		allowed = append(allowed, prefix)
	}
	return allowed, faults.Err()
}
