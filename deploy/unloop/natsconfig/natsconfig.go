// Package natsconfig writes configurations of NATS servers for Unloop: a cluster, certificates,
// an account with a user for each service, one for readers, and the files with which each user
// connects.
//
// The permissions are those of package natsperm. It does not know the services.
package natsconfig

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/unloop/unloop/schemas/kit/partition"
)

// The accounts: that of Unloop, that of users who only read, and that of the servers.
const (
	Account = "UNLOOP"
	Readers = "UNLOOP_READERS"
	System  = "SYS"
)

// SystemUser is the user of the account System.
const SystemUser = "system"

// ErrInvalid means that a configuration is not valid.
var ErrInvalid = errors.New("NATS configuration")

// Node is one server.
type Node struct {
	// Name is unique. Host is the name or address at which clients and the other servers
	// reach it.
	Name, Host            string
	ClientPort, RoutePort int
	// LeafPort is for servers of other regions, if any may join.
	LeafPort int
	// MonitorPort is for health checks and metrics over HTTP; 0 for none.
	MonitorPort int
}

// TLS says which certificates the servers use. The zero value means none.
type TLS struct {
	// On creates a certificate authority and certificates.
	On bool
	// CA, Cert and Key are the paths of existing files on the servers instead.
	CA, Cert, Key string
	// Names are further names and addresses in the created certificates.
	Names []string
}

func (t TLS) enabled() bool { return t.On || t.Cert != "" }

// Config describes the servers.
type Config struct {
	Nodes []Node
	// Listen is the address on which servers listen.
	Listen string
	TLS    TLS
	// Domain is the JetStream domain, which is the name of the region; "" for none.
	Domain string
	// Regions are the regions that may join this one, which is then the origin of policies and
	// overrides.
	Regions []string
	// Origin is the region that this one joins; nil for none.
	Origin *Invitation
	// StoreDir is the storage folder of each server; %s stands for its name.
	StoreDir string
	// MaxFileStore is the storage limit of each server, such as 10GB; "" for the server's
	// default.
	MaxFileStore string
	// ServerDir and ClientDir are the paths of the written folder on servers and clients.
	ServerDir, ClientDir string
	// Replicas of streams.
	Replicas int
	// Partitions is the largest number of partitions that users may use; 0 means 1.
	Partitions int
}

var (
	nameForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	domainForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	sizeForm   = regexp.MustCompile(`^\d+(K|M|G|T|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?$`)
)

// Validate returns all faults of the configuration.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
		}
	}
	n, t := len(c.Nodes), c.TLS
	check(n == 1 || n == 3 || n == 5, "--nodes %d: take 1, 3 or 5, so that a majority remains when one is lost", n)
	check(n <= 1 || t.enabled(), "a cluster needs certificates for the connections between servers: add --tls, or --tls-ca, --tls-cert and --tls-key")
	check((t.CA == "") == (t.Cert == "") && (t.Cert == "") == (t.Key == ""), "--tls-ca, --tls-cert and --tls-key go together")
	check(!t.On || t.Cert == "", "--tls creates certificates, and --tls-cert names others: keep one of them")
	check(c.Replicas >= 1 && c.Replicas <= max(n, 1), "--replicas %d: take 1 to %d, the number of servers", c.Replicas, n)
	err := partition.Valid(max(c.Partitions, 1))
	check(err == nil, "--partitions: %v", err)
	check(c.Domain == "" || domainForm.MatchString(c.Domain), "--domain %q must have 1 to 64 letters, digits, - and _", c.Domain)
	check(c.MaxFileStore == "" || sizeForm.MatchString(c.MaxFileStore), "--max-file-store %q must be a size such as 10GB", c.MaxFileStore)
	check(n <= 1 || strings.Contains(c.StoreDir, "%s") || !c.sharesHosts(),
		"--store-dir %s is one folder for servers on one machine: put %%s in it, which stands for the server's name", c.StoreDir)
	check(len(c.Regions) == 0 && c.Origin == nil || c.Domain != "" && t.enabled(), "links between regions need the region's name and certificates: add --region and --tls (or --tls-ca, --tls-cert and --tls-key)")
	check(len(c.Regions) == 0 || c.Origin == nil, "--join and --regions: the region that others join is the origin, and joins no other")
	for _, region := range c.Regions {
		check(domainForm.MatchString(region) && region != c.Domain, "--regions %q must be other regions, with 1 to 64 letters, digits, - and _", region)
	}
	for _, node := range c.Nodes {
		check(nameForm.MatchString(node.Name) && node.Host != "" && !strings.ContainsAny(node.Host, " \"'{}\n/@"), "--host %q must be a host name or an address", node.Host)
	}
	return errors.Join(faults...)
}

func (c Config) sharesHosts() bool {
	hosts := map[string]bool{}
	for _, n := range c.Nodes {
		hosts[n.Host] = true
	}
	return len(hosts) < len(c.Nodes)
}

// URL returns the addresses of all servers, for --nats.
func (c Config) URL() string {
	scheme := "nats://"
	if c.TLS.enabled() {
		scheme = "tls://"
	}
	var urls []string
	for _, n := range c.Nodes {
		urls = append(urls, scheme+net.JoinHostPort(n.Host, strconv.Itoa(n.ClientPort)))
	}
	return strings.Join(urls, ",")
}
