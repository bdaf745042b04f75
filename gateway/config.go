package gateway

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/unloop/unloop/gateway/internal/edge/serve"
	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/kit/access"
	"github.com/unloop/unloop/schemas/kit/service"
	"github.com/unloop/unloop/schemas/policy"
)

// Config is a gateway's configuration.
type Config struct {
	Listen          string         `short:"l" default:"127.0.0.1:8080" placeholder:"ADDR" help:"Address on which agents reach the gateway."`
	Upstream        service.Pairs  `short:"u" placeholder:"NAME=URL" help:"Upstream by name: a provider (openai, anthropic, ...), default, or a name of your own. Repeatable; one value may hold several."`
	UpstreamKey     service.Pairs  `placeholder:"NAME=env:VAR" help:"Provider key that the gateway sends to an upstream instead of its clients' keys, read from an environment variable or a file (NAME=file:PATH). Repeatable; one value may hold several."`
	UpstreamCA      string         `name:"upstream-ca" type:"path" placeholder:"FILE" help:"Extra CA certificates (PEM) for upstreams, in addition to the system's."`
	Auth            []string       `placeholder:"key:env:VAR" help:"Who may use the gateway: holders of Unloop keys listed in an environment variable or a file (key:file:PATH), or of tokens signed by the key set at a URL (jwt:URL). Repeatable. Default: everyone."`
	BesideListen    string         `placeholder:"ADDR" help:"Address at which other gateways ask over gRPC: Envoy (ext_proc, ext_authz) and agentgateway (ExtMcp). Default: none."`
	BesideSecret    service.Pairs  `placeholder:"NAME=env:VAR" help:"Secret with which another gateway signs what it asks (anthropic), read from an environment variable or a file (NAME=file:PATH)."`
	AuthIssuer      string         `placeholder:"ISS" help:"Required issuer (iss) of tokens."`
	AuthAudience    []string       `placeholder:"AUD" help:"Accepted audience (aud) of tokens. Repeatable; required with jwt:URL."`
	AuthTenantClaim string         `placeholder:"CLAIM" help:"Token claim that holds the tenant. It overrides X-Tenant-ID."`
	Reject          string         `default:"auto" placeholder:"auto|synthetic|STATUS" help:"Answer to rejected requests if their policy does not set one: auto (whatever ends the client), synthetic (a message in place of the model's), or an error with this status."`
	Policies        string         `short:"p" type:"path" placeholder:"FILE" help:"Policy bundle, YAML or JSON, reloaded when it changes. Default: the pushed bundle, or else the default policy."`
	JWKSAllowCIDR   []netip.Prefix `name:"jwks-allow-cidr" placeholder:"CIDR" help:"Private network that a bundle's jwks_url may point to, such as 10.0.0.0/8. Repeatable."`
	CheckTimeout    time.Duration  `default:"50ms" help:"How long a request waits for a decision before the policy's failure mode applies."`
	MaxInspectBytes int64          `default:"8388608" placeholder:"BYTES" help:"Largest request body that is inspected."`
	MaxBodyMemory   int64          `default:"0" placeholder:"BYTES" help:"Memory for the bodies of all requests; one caller may use half of it. Further requests wait, then get a 503. Default: a quarter of the process's memory limit, at most 512 MiB."`
	Record          string         `type:"path" placeholder:"FILE" help:"Append every request, with its prompt but without its key, to this file, for unloop replay."`
	MaxDelayed      int            `default:"16" help:"How many requests of one loop a throttle delays at the same time; further ones are rejected."`
	NoExcerpts      bool           `help:"Keep no text of loops in memory. Otherwise the admin port shows what a loop repeated, for 15 minutes: of all loops if the port is on a loopback address, else of those whose policy has include_excerpt."`
	Project         string         `help:"Project of requests without X-Project-ID."`
	CallerHashKey   string         `placeholder:"HEX" help:"Key for hashing API keys, 64 hex digits. Default: the cluster generates one."`
	// Pages are the web pages that may use the gateway, from the flags of the process.
	Pages access.Allowed `kong:"-"`
	// Local is set if only this machine can reach the admin port.
	Local bool `kong:"-"`
	// ProofKey proves in the answer to a ping that this user runs the gateway; "" for no
	// proof.
	ProofKey string `kong:"-"`
	// TLS is the server certificate; without one the gateway speaks plain HTTP.
	TLS serve.Certificate `kong:"-"`
	// StartGrace is how long to wait for the cluster before serving without it, and then for
	// a detector before being ready without one. 0 means 2 s.
	StartGrace time.Duration `kong:"-"`

	ShutdownDelay time.Duration `default:"0s" help:"How long the gateway still accepts requests after the stop signal while /readyz already fails, so that load balancers notice."`
	ShutdownGrace time.Duration `default:"30s" help:"How long requests in flight may take to finish at shutdown."`
}

// DefaultConfig returns the configuration if no flag is set.
func DefaultConfig() Config { return service.Defaults[Config]() }

// Guarded reports whether clients must authenticate.
func (c Config) Guarded() bool { return len(c.Auth) > 0 }

// CheckAccess returns an error if anybody could use the gateway or its provider keys, unless
// the flags allow that.
func (c Config) CheckAccess(p service.Process) error {
	err := p.CheckGuarded("--listen", c.Listen, "--auth", c.Guarded())
	if c.BesideListen != "" {
		err = errors.Join(err, p.CheckGuarded("--beside-listen", c.BesideListen, "--auth", c.Guarded()))
	}
	if len(c.UpstreamKey) > 0 && !c.Guarded() && !p.Insecure {
		err = errors.Join(err, errors.New("--upstream-key without --auth would let every program that reaches --listen use the provider's key; "+
			"ask its clients for a key with --auth, or allow it with --insecure"))
	}
	return err
}

// Validate returns every fault of the configuration.
func (c Config) Validate() error {
	_, err := route.NewTable(c.Upstream)
	faults := service.Faults{err}
	faults.Check(c.CheckTimeout > 0, "--check-timeout is %s, must be positive", c.CheckTimeout)
	faults.Check(c.MaxInspectBytes > 0, "--max-inspect-bytes is %d, must be positive", c.MaxInspectBytes)
	faults.Check(c.MaxBodyMemory >= 0, "--max-body-memory is %d, must not be negative", c.MaxBodyMemory)
	faults.Check(c.MaxDelayed > 0, "--max-delayed is %d, must be positive", c.MaxDelayed)
	faults.Check(c.ShutdownDelay >= 0, "--shutdown-delay is %s, must not be negative", c.ShutdownDelay)
	faults.Check(c.ShutdownGrace >= 0, "--shutdown-grace is %s, must not be negative", c.ShutdownGrace)
	if c.Reject != "" {
		_, err = policy.ParseReject(c.Reject)
		faults.Check(err == nil, "--reject: %w", err)
	}
	_, err = c.hashKey()
	return append(faults, err).Err()
}

// hashKey returns the configured key; nil for none.
func (c Config) hashKey() (*[identity.KeySize]byte, error) {
	key, err := identity.ReadKey(c.CallerHashKey)
	if err != nil {
		return nil, fmt.Errorf("--caller-hash-key %w", err)
	}
	return key, nil
}
