package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/natsconfig"
	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas/kit/access"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natsperm"
	"github.com/unloop/unloop/schemas/kit/operator"
)

// natsConfigCmd does not connect to NATS, so its flags have no environment variables.
type natsConfigCmd struct {
	Out          string   `arg:"" default:"nats" help:"Folder to write to." placeholder:"DIR"`
	Nodes        int      `env:"-" default:"1" help:"Number of servers: 1, 3 or 5."`
	Host         []string `env:"-" placeholder:"HOST[:PORT]" help:"Name or address under which clients and other servers reach a server; one for each server. Default: 127.0.0.1, or nats-1 and so on."`
	Listen       string   `env:"-" placeholder:"ADDR" help:"Address on which servers listen. Default: 127.0.0.1 if the host is this machine, else 0.0.0.0."`
	RoutePort    int      `env:"-" default:"6222" help:"Port for the routes between servers."`
	MonitorPort  int      `env:"-" default:"8222" help:"Port for health checks and metrics over HTTP; 0 for none."`
	TLS          bool     `name:"tls" env:"-" help:"Create a certificate authority and certificates."`
	SAN          []string `name:"san" env:"-" placeholder:"NAME" help:"Extra name or address in the certificates, such as that of a load balancer. Repeatable."`
	TLSCA        string   `name:"tls-ca" env:"-" placeholder:"FILE" help:"Your own CA certificate: its path on servers and clients."`
	TLSCert      string   `name:"tls-cert" env:"-" placeholder:"FILE" help:"Your own server certificate: its path on servers. In a cluster it must be valid for client authentication, too."`
	TLSKey       string   `name:"tls-key" env:"-" placeholder:"FILE" help:"Private key of that certificate: its path on servers."`
	Domain       string   `env:"-" placeholder:"NAME" help:"JetStream domain."`
	Region       string   `env:"-" placeholder:"NAME" help:"Region of these servers, which is also their JetStream domain."`
	Regions      []string `env:"-" placeholder:"NAME" help:"Other regions, which mirror the policies and overrides of this one, and whose events it collects. Writes region-NAME.json for each."`
	Join         string   `env:"-" placeholder:"FILE" help:"The region-NAME.json with which these servers join another region."`
	LeafPort     int      `env:"-" default:"7422" help:"Port for the connections of other regions."`
	StoreDir     string   `env:"-" placeholder:"DIR" help:"Storage folder of servers; %s stands for the server's name. Default: store-%s in --server-dir."`
	MaxFileStore string   `env:"-" placeholder:"SIZE" help:"Storage limit of each server, such as 10GB. Default: 75 % of its disk."`
	ServerDir    string   `env:"-" placeholder:"DIR" help:"Path of the folder on servers, such as in containers. Default: the folder itself."`
	ClientDir    string   `env:"-" placeholder:"DIR" help:"Path of the folder on services, such as in containers. Default: the folder itself."`
	Replicas     int      `env:"-" help:"Replicas of streams. Default: 3 in a cluster, else 1."`
	Partitions   int      `env:"-" default:"1" help:"Largest number of partitions that users may use, up to 32: at least that of unloop nats init."`
	Force        bool     `env:"-" help:"Replace an existing configuration but keep its keys and certificates."`
	NewKeys      bool     `env:"-" help:"Replace keys and certificates, too. All services then need the new ones."`
}

// Help explains what is written.
func (c *natsConfigCmd) Help() string {
	return "Writes NODE.conf for each server; and for each user (" + strings.Join(natsperm.Names(), ", ") + ") the nkey seed USER.nk, and USER.env with the variables to connect with. " +
		"Servers hold only public keys. docs/reference/nats.md lists what each user may do."
}

// Run writes the files.
func (c *natsConfigCmd) Run(std streams) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	names, err := cfg.Write(c.Out, natsconfig.Options{Force: c.Force, NewKeys: c.NewKeys})
	if err != nil {
		return err
	}
	out := std.printer()
	out.printf("Wrote %d files to %s.\n\n", len(names), c.Out)
	for _, n := range cfg.Nodes {
		out.printf("  %-26s  nats-server -c %s\n", "start the server "+n.Name, filepath.Join(c.Out, natsconfig.ServerFile(n)))
	}
	out.printf("  %-26s  set -a; . %s; set +a; unloop nats init\n", "create the streams", filepath.Join(c.Out, natsconfig.EnvFile(natsperm.Operator)))
	out.printf("  %-26s  set -a; . %s; set +a; unloop gateway\n\n", "start a service, as", filepath.Join(c.Out, natsconfig.EnvFile(natsperm.Gateway)))
	out.printf("Keep *.nk and *-key.pem secret: give each process only its own, and %s to operators.\n", natsconfig.SealSeedFile)
	return out.err
}

// config returns the configuration that the flags describe.
func (c *natsConfigCmd) config() (natsconfig.Config, error) {
	dir, err := filepath.Abs(c.Out)
	if err != nil {
		return natsconfig.Config{}, fmt.Errorf("find %s: %w", c.Out, err)
	}
	cfg := natsconfig.Config{
		Listen: c.Listen, TLS: natsconfig.TLS{On: c.TLS, CA: c.TLSCA, Cert: c.TLSCert, Key: c.TLSKey, Names: c.SAN}, MaxFileStore: c.MaxFileStore,
		StoreDir: cmp.Or(c.StoreDir, path.Join(cmp.Or(c.ServerDir, dir), "store-%s")), ServerDir: cmp.Or(c.ServerDir, dir), ClientDir: cmp.Or(c.ClientDir, dir), Replicas: c.Replicas,
		Regions: c.Regions, Partitions: c.Partitions,
	}
	if err := c.place(&cfg); err != nil {
		return cfg, err
	}
	if cfg.Nodes, err = c.nodes(); err != nil {
		return cfg, err
	}
	cfg.Replicas = cmp.Or(cfg.Replicas, min(len(cfg.Nodes), 3))
	if cfg.Listen == "" {
		cfg.Listen = "0.0.0.0"
		if access.Loopback(cfg.Nodes[0].Host) {
			cfg.Listen = "127.0.0.1"
		}
	}
	return cfg, nil
}

// place sets the JetStream domain, which is the name of the region.
func (c *natsConfigCmd) place(cfg *natsconfig.Config) (err error) {
	cfg.Domain = cmp.Or(c.Domain, c.Region)
	if c.Join != "" {
		if cfg.Origin, err = natsconfig.ReadInvitation(c.Join); err != nil {
			return err
		}
		cfg.Domain = cmp.Or(cfg.Domain, cfg.Origin.Region)
	}
	for _, name := range []string{c.Domain, c.Region} {
		if name != "" && (name != cfg.Domain || cfg.Origin != nil && name != cfg.Origin.Region) {
			return fmt.Errorf("%w: --region, --domain and the region of --join must be the same", natsconfig.ErrInvalid)
		}
	}
	return nil
}

// natsPort is the port for clients.
const natsPort = 4222

// nodes returns the servers. Those on one host have consecutive ports.
func (c *natsConfigCmd) nodes() (nodes []natsconfig.Node, err error) {
	if c.Nodes < 1 || len(c.Host) > 0 && len(c.Host) != c.Nodes {
		return nil, fmt.Errorf("%w: --nodes %d needs one --host for each server; there are %d", natsconfig.ErrInvalid, c.Nodes, len(c.Host))
	}
	on := map[string]int{}
	for i := range c.Nodes {
		n := natsconfig.Node{Name: fmt.Sprint("nats-", i+1), ClientPort: natsPort, RoutePort: c.RoutePort, LeafPort: c.LeafPort, MonitorPort: c.MonitorPort}
		n.Host = n.Name
		switch {
		case len(c.Host) > 0:
			if n.Host, n.ClientPort, err = hostPort(c.Host[i]); err != nil {
				return nil, err
			}
		case c.Nodes == 1:
			n.Host = "127.0.0.1"
		}
		before := on[n.Host]
		n.RoutePort, n.LeafPort = n.RoutePort+before, n.LeafPort+before
		if n.MonitorPort > 0 {
			n.MonitorPort += before
		}
		if n.ClientPort == natsPort {
			n.ClientPort += before
		}
		on[n.Host]++
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// hostPort reads a host with or without a port.
func hostPort(text string) (host string, port int, err error) {
	host, given, err := net.SplitHostPort(text)
	if err != nil { // there is no port
		return strings.Trim(text, "[]"), natsPort, nil //nolint:nilerr // the error says so
	}
	if port, err = strconv.Atoi(given); err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("%w: --host %q must be HOST or HOST:PORT", natsconfig.ErrInvalid, text)
	}
	return host, port, nil
}

// regionFlags are set by the operator.env of regions.
type regionFlags struct {
	Origin  string   `placeholder:"NAME" help:"Region whose policies and overrides this one mirrors."`
	Regions []string `placeholder:"NAME" help:"Other regions whose events and audit this one collects."`
}

// natsInitCmd creates the streams.
type natsInitCmd struct {
	client
	formatted
	Replicas   int           `default:"1" help:"Replicas of each stream. Existing streams with fewer get more."`
	Partitions int           `help:"Streams that each bucket of state is spread over: 1, 2, 4, 8, 16 or 32. The number can grow while services run, but never shrink. Default: as many as there are." placeholder:"N"`
	Region     regionFlags   `embed:""`
	Promote    bool          `env:"-" help:"Make this region the origin, with the policies and overrides that it has. Only for when the former origin is lost for good."`
	Timeout    time.Duration `default:"10m" help:"How long to wait for the servers, for the replicas, and for records to move to new partitions."`
}

// Help explains when it is needed.
func (c *natsInitCmd) Help() string {
	return "Services create missing streams themselves if their users may. With the users of `unloop nats config` only the operator may: run this once before the services start, " +
		"and again for more replicas or partitions. Adding partitions takes a minute, or five for a million records; services keep running meanwhile. Nothing else in existing streams changes, and no record is lost. " +
		"It also creates the key with which gateways hash callers, and seals it with the operator's seed if there is one."
}

// Run creates the streams and reports what it did.
func (c *natsInitCmd) Run(ctx context.Context, std streams) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if c.Replicas < 1 || c.Replicas > 5 {
		return fmt.Errorf("--replicas %d must be 1 to 5", c.Replicas)
	}
	if c.Domain == "" && (c.Region.Origin != "" || len(c.Region.Regions) > 0) {
		return errors.New("--origin and --regions need the name of this region, which is its JetStream domain: --nats-domain")
	}
	if c.Promote {
		c.Region.Origin = ""
	}
	by, err := c.signer()
	if err != nil {
		return err
	}
	var done []natskit.Prepared
	err = c.with(ctx, func(js jetstream.JetStream) (err error) {
		if c.Promote {
			if err := natskit.Promote(ctx, js); err != nil {
				return err
			}
		}
		layout := natskit.Layout{Replicas: c.Replicas, Partitions: c.Partitions, Region: natskit.Region{Name: c.Domain, Origin: c.Region.Origin, Others: c.Region.Regions}}
		growth := natskit.Growth{JS: js, Layout: layout.Everything(), Note: func(text string) { fmt.Fprintln(std.err, text) }}
		growth.Allowed = func(ctx context.Context) error { return operator.KnowPartitions(ctx, js.Conn()) }
		if done, err = growth.Run(ctx); err != nil {
			return err
		}
		if layout.Region.Origin != "" {
			return natskit.AwaitOrigin(ctx, js)
		}
		_, err = operator.EnsureCallerHashKey(ctx, js, by)
		return err
	})
	if err != nil {
		return err
	}
	t := terminal.NewTable(terminal.Column{Name: "STREAM"}, terminal.Column{Name: "REPLICAS"}, terminal.Column{Name: "DONE"})
	for _, p := range done {
		what := "as it was"
		switch {
		case p.Created:
			what = "created"
		case p.Raised():
			what = fmt.Sprintf("raised from %d", p.Before)
		}
		t.Row(p.Stream, strconv.Itoa(p.Replicas), what)
	}
	return c.show(std, done, func(out *printer) { out.table(t) })
}
