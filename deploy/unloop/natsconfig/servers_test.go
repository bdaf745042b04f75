package natsconfig_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/natsconfig"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natsperm"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/kit/seal"
	"github.com/unloop/unloop/schemas/kit/service"
)

// patience bounds what a test waits for; nothing healthy comes near it.
const patience = 3 * time.Minute

// lines collects what several goroutines log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) log() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// freePorts returns ports on loopback that nobody listens at.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		addr, err := net.ResolveTCPAddr("tcp", natstest.FreeAddr(t))
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, addr.Port)
	}
	return ports
}

// installation is a written configuration and the servers that run it.
type installation struct {
	natsconfig.Config
	t       *testing.T
	dir     string
	servers []*server.Server
	// url is where clients connect.
	url string
	// operator is a connection that is kept; nil before it is needed.
	operator jetstream.JetStream
	// origin is where operators push policies and set overrides; nil for this one.
	origin *installation
}

// install writes a configuration for servers on loopback, and starts them. Lines are
// added to the configuration of each.
func install(t *testing.T, nodes int, edit func(*natsconfig.Config), extra ...string) *installation {
	t.Helper()
	dir, ports := t.TempDir(), freePorts(t, 3*nodes)
	in := &installation{t: t, dir: dir, Config: natsconfig.Config{
		Listen: "127.0.0.1", TLS: natsconfig.TLS{On: true}, StoreDir: filepath.Join(dir, "store-%s"), ServerDir: dir, ClientDir: dir, Replicas: 1,
		MaxFileStore: "64GB", // streams reserve their bounds, and the disk may be small
	}}
	for i := range nodes {
		in.Nodes = append(in.Nodes, natsconfig.Node{Name: fmt.Sprint("nats-", i+1), Host: "127.0.0.1", ClientPort: ports[3*i], RoutePort: ports[3*i+1], LeafPort: ports[3*i+2]})
	}
	if edit != nil {
		edit(&in.Config)
	}
	in.url = in.URL()
	if _, err := in.Write(dir, natsconfig.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range in.Nodes {
		in.servers = append(in.servers, run(t, filepath.Join(dir, natsconfig.ServerFile(n)), extra...))
	}
	for _, s := range in.servers {
		if !s.ReadyForConnections(patience) {
			t.Fatal("a server does not start")
		}
	}
	in.await("a JetStream leader", func() bool {
		return nodes == 1 || slices.ContainsFunc(in.servers, func(s *server.Server) bool {
			return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == nodes
		})
	})
	return in
}

// run starts a server by the file of its configuration, as nats-server -c does.
func run(t *testing.T, file string, extra ...string) *server.Server {
	t.Helper()
	if len(extra) > 0 {
		file = withLines(t, file, extra)
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatalf("the server refuses the configuration: %v", err)
	}
	opts.NoSigs, opts.NoLog = true, true
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatalf("the server refuses the configuration: %v", err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// settings are the flags of a user.
func (in *installation) settings(user string) natskit.Settings {
	s := natskit.Settings{NKey: filepath.Join(in.dir, natsconfig.SeedFile(user)), InboxPrefix: natsperm.InboxPrefix(user), Domain: in.Domain}
	if in.TLS.On {
		s.TLSCA = filepath.Join(in.dir, "ca.pem")
	}
	return s
}

// connect connects as a user, as a service does.
func (in *installation) connect(user string, log *slog.Logger) *natskit.Conn {
	in.t.Helper()
	conn, err := in.settings(user).Connect(in.url, user, log)
	if err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(conn.Close)
	in.await(user+" is connected", func() bool { return conn.Err() == nil })
	return conn
}

// jetstream connects as a user, as a command does.
func (in *installation) jetstream(user string) jetstream.JetStream {
	in.t.Helper()
	nc, err := in.settings(user).Dial(in.url, user, nil)
	if err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(nc.Close)
	js, err := in.settings(user).JetStream(nc)
	if err != nil {
		in.t.Fatal(err)
	}
	return js
}

// prepare creates the streams as the operator, with half of the partitions that users may use.
func (in *installation) prepare(replicas int) []natskit.Prepared {
	in.t.Helper()
	ctx, cancel := context.WithTimeout(in.t.Context(), patience)
	defer cancel()
	layout := natskit.Layout{Replicas: replicas, Partitions: max(in.Partitions/2, 1), Region: in.place()}
	done, err := natskit.Prepare(ctx, in.jetstream(natsperm.Operator), layout.Everything())
	if err == nil && in.origin == nil {
		_, err = operator.EnsureCallerHashKey(ctx, in.jetstream(natsperm.Operator), in.signer())
	}
	if err == nil && in.origin != nil {
		err = natskit.AwaitOrigin(ctx, in.jetstream(natsperm.Operator))
	}
	if err != nil {
		in.t.Fatal(err)
	}
	return done
}

// place is the region of a configuration.
func (in *installation) place() (r natskit.Region) {
	r.Name, r.Others = in.Domain, in.Regions
	if in.Origin != nil {
		r.Origin = in.Origin.Origin
	}
	return r
}

// signer seals as operators do.
func (in *installation) signer() *seal.Signer {
	in.t.Helper()
	by, err := seal.ReadSigner(filepath.Join(in.dir, natsconfig.SealSeedFile))
	if err != nil {
		in.t.Fatal(err)
	}
	return by
}

// trust is that of services, by their variables.
func (in *installation) trust() seal.Trust {
	in.t.Helper()
	var keys service.Sealed
	for line := range strings.Lines(read(in.t, in.dir, natsconfig.EnvFile(natsperm.Gateway))) {
		if key, ok := strings.CutPrefix(strings.TrimSpace(line), "UNLOOP_SEAL_KEY="); ok {
			keys.SealKey = append(keys.SealKey, key)
		}
	}
	trust, err := keys.Trust()
	if err != nil || !trust.Checks() {
		in.t.Fatalf("the gateway trusts %v, %v", keys, err)
	}
	return trust
}

// await polls until something holds.
func (in *installation) await(what string, holds func() bool) {
	in.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			in.t.Fatalf("%s did not come about", what)
		}
	}
}

// awaitLine awaits a line of a log that has all parts.
func (in *installation) awaitLine(log *lines, parts ...string) {
	in.t.Helper()
	in.await(strings.Join(parts, " … "), func() bool {
		return slices.ContainsFunc(strings.Split(log.String(), "\n"), func(line string) bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
		})
	})
}
