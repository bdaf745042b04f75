package gateway

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/alecthomas/kong"

	"github.com/unloop/unloop/gateway/internal/identity"
	"github.com/unloop/unloop/gateway/internal/route"
	"github.com/unloop/unloop/gateway/internal/serve"
	"github.com/unloop/unloop/schemas/kit/access"
	"github.com/unloop/unloop/schemas/kit/service"
	"github.com/unloop/unloop/schemas/policy"
)

// Config is a gateway's configuration.
type Config struct {
	Listen          string         `short:"l" default:"127.0.0.1:8080" placeholder:"ADDR" help:"Address that agents send their LLM traffic to."`
	Upstream        service.Pairs  `short:"u" placeholder:"NAME=URL" help:"Upstream by name: openai, anthropic, gemini, default, or any other. Repeatable, and one value may hold several."`
	UpstreamKey     service.Pairs  `placeholder:"NAME=env:VAR" help:"Provider's key that is put in for an upstream's clients, in an environment variable or in a file (NAME=file:PATH). Repeatable, and one value may hold several."`
	UpstreamCA      string         `name:"upstream-ca" type:"path" placeholder:"FILE" help:"Certificates (PEM) of authorities that upstreams are trusted by, beside the system's."`
	Auth            []string       `placeholder:"key:env:VAR" help:"Who may use the gateway: Unloop's own keys in an environment variable or in a file (key:file:PATH), or tokens that the keys at a URL verify (jwt:URL). Repeatable; without it everybody."`
	AuthIssuer      string         `placeholder:"ISS" help:"Issuer (iss) that tokens must have."`
	AuthAudience    []string       `placeholder:"AUD" help:"Audience (aud) of which tokens must have one. Repeatable; jwt:URL needs it."`
	AuthTenantClaim string         `placeholder:"CLAIM" help:"Claim of a token that names its tenant; it then outranks X-Tenant-ID."`
	Reject          string         `default:"auto" placeholder:"auto|synthetic|STATUS" help:"What rejected requests get where their policy does not say: what ends the client that sent them (auto), a message in the model's place, or an error of this status."`
	Policies        string         `short:"p" type:"path" placeholder:"FILE" help:"Policy bundle, YAML or JSON, followed as it changes; without one the pushed bundle holds, else the default policy."`
	JWKSAllowCIDR   []netip.Prefix `name:"jwks-allow-cidr" placeholder:"CIDR" help:"Let a bundle's jwks_url lead to this network although it is private, such as 10.0.0.0/8. Repeatable."`
	CheckTimeout    time.Duration  `default:"50ms" help:"How long a request waits for a decision before the policy's failure mode decides."`
	MaxInspectBytes int64          `default:"8388608" placeholder:"BYTES" help:"Largest request body that is inspected."`
	MaxBodyMemory   int64          `default:"0" placeholder:"BYTES" help:"Memory that the bodies of all requests may take at once, one caller at most half of it; over that requests wait, then get a 503. Default: a quarter of the process's memory limit, at most 512 MiB."`
	Record          string         `type:"path" placeholder:"FILE" help:"Append all requests, with their prompts and without their keys, to a file for unloop replay."`
	MaxDelayed      int            `default:"16" help:"Requests of one loop that a throttle delays at once; more are rejected."`
	Project         string         `help:"Project of requests without X-Project-ID."`
	CallerHashKey   string         `placeholder:"HEX" help:"Key that API keys are hashed with, 64 hex digits; without one the cluster makes its own."`
	// Pages are the exceptions for web pages, from the flags of the process.
	Pages access.Allowed `kong:"-"`
	// ProofKey proves in a ping that the user of the gateway runs it; "" proves nothing.
	ProofKey string `kong:"-"`
	// TLS is the certificate for clients; none speaks plain HTTP.
	TLS serve.Certificate `kong:"-"`
	// StartGrace is how long to wait for the cluster before serving without, and then for a
	// detector before being ready without; 0 is 2 s.
	StartGrace time.Duration `kong:"-"`

	ShutdownDelay time.Duration `default:"0s" help:"How long requests are still taken after the signal to stop, while /readyz already says no, so that load balancers notice."`
	ShutdownGrace time.Duration `default:"30s" help:"How long requests in flight may take to finish at shutdown."`
}

// DefaultConfig returns the configuration without any flag.
func DefaultConfig() Config {
	var c Config
	_ = kong.ApplyDefaults(&c) // the defaults are constants; tests start with them
	return c
}

// Guarded reports whether clients must show who they are.
func (c Config) Guarded() bool { return len(c.Auth) > 0 }

// CheckAccess refuses a configuration that would let anybody use the gateway, or the
// providers' keys in it, unless the flags allow that.
func (c Config) CheckAccess(p service.Process) error {
	err := p.CheckGuarded("--listen", c.Listen, "--auth", c.Guarded())
	if len(c.UpstreamKey) > 0 && !c.Guarded() && !p.Insecure {
		err = errors.Join(err, errors.New("--upstream-key without --auth would let every program that reaches --listen use the provider's key; "+
			"ask its clients for a key with --auth, or allow it with --insecure"))
	}
	return err
}

// Validate returns every fault of the configuration.
func (c Config) Validate() error {
	_, err := route.NewTable(c.Upstream)
	faults := []error{err}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(c.CheckTimeout > 0, "--check-timeout is %s, must be positive", c.CheckTimeout)
	check(c.MaxInspectBytes > 0, "--max-inspect-bytes is %d, must be positive", c.MaxInspectBytes)
	check(c.MaxBodyMemory >= 0, "--max-body-memory is %d, must not be negative", c.MaxBodyMemory)
	check(c.MaxDelayed > 0, "--max-delayed is %d, must be positive", c.MaxDelayed)
	check(c.ShutdownDelay >= 0, "--shutdown-delay is %s, must not be negative", c.ShutdownDelay)
	check(c.ShutdownGrace >= 0, "--shutdown-grace is %s, must not be negative", c.ShutdownGrace)
	if c.Reject != "" {
		_, err = policy.ParseReject(c.Reject)
		check(err == nil, "--reject: %w", err)
	}
	_, err = c.hashKey()
	return errors.Join(append(faults, err)...)
}

// hashKey is the configured key, or nil.
func (c Config) hashKey() (*[identity.KeySize]byte, error) {
	if c.CallerHashKey == "" {
		return nil, nil
	}
	key, err := hex.DecodeString(c.CallerHashKey)
	if err != nil || len(key) != identity.KeySize {
		return nil, fmt.Errorf("--caller-hash-key must be %d hex digits, such as `openssl rand -hex %d` prints", 2*identity.KeySize, identity.KeySize)
	}
	return (*[identity.KeySize]byte)(key), nil
}
