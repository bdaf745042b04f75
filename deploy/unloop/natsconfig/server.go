package natsconfig

import (
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	"github.com/unloop/unloop/schemas/kit/natsperm"
)

// text is a server's configuration while it is written.
type text struct{ strings.Builder }

func (t *text) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

// quote returns a string as a value. The forms that are allowed need no escapes but these.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// server returns the configuration of a server. public has the users' public keys.
func (c Config) server(n Node, public map[string]string) string {
	t := &text{}
	t.line("# A NATS server for Unloop, written by `unloop nats config`. It has no secrets: users")
	t.line("# prove who they are with their nkeys. docs/nats.md says what each of them may do.")
	t.line("server_name: %s", quote(n.Name))
	t.line("listen: %s", quote(net.JoinHostPort(c.Listen, strconv.Itoa(n.ClientPort))))
	if n.MonitorPort > 0 {
		t.line("http: %s", quote(net.JoinHostPort(c.Listen, strconv.Itoa(n.MonitorPort))))
	}
	t.line("# A client that is frozen is given up, so that its queue groups go on.")
	t.line("ping_interval: \"2s\"\nping_max: 2\nmax_payload: 1MB\n")
	t.line("jetstream {\n  store_dir: %s", quote(c.store(n)))
	if c.MaxFileStore != "" {
		t.line("  max_file_store: %s", c.MaxFileStore)
	}
	if c.Domain != "" {
		t.line("  domain: %s", quote(c.Domain))
	}
	t.line("}\n")
	if c.TLS.enabled() {
		t.line("tls {\n%s}\n", c.certificates(n, false))
	}
	if len(c.Nodes) > 1 {
		c.cluster(t, n)
	}
	accounts(t, public, c.Domain)
	return t.String()
}

func (c Config) store(n Node) string {
	if strings.Contains(c.StoreDir, "%s") {
		return strings.ReplaceAll(c.StoreDir, "%s", n.Name)
	}
	return c.StoreDir
}

// certificates returns the lines of a tls block. Servers of a cluster check each other's.
func (c Config) certificates(n Node, mutual bool) string {
	ca, cert, key := c.TLS.CA, c.TLS.Cert, c.TLS.Key
	if c.TLS.On {
		ca, cert, key = path.Join(c.ServerDir, fileCA), path.Join(c.ServerDir, n.Name+".pem"), path.Join(c.ServerDir, n.Name+"-key.pem")
	}
	lines := fmt.Sprintf("  cert_file: %s\n  key_file: %s\n  timeout: 5\n", quote(cert), quote(key))
	if mutual {
		lines += fmt.Sprintf("  ca_file: %s\n  verify: true\n", quote(ca))
	}
	return lines
}

func (c Config) cluster(t *text, n Node) {
	t.line("cluster {\n  name: unloop\n  listen: %s\n  routes: [", quote(net.JoinHostPort(c.Listen, strconv.Itoa(n.RoutePort))))
	for _, other := range c.Nodes {
		if other.Name != n.Name {
			t.line("    %s", quote("nats-route://"+net.JoinHostPort(other.Host, strconv.Itoa(other.RoutePort))))
		}
	}
	t.line("  ]\n  tls {\n%s  }\n}\n", indent(c.certificates(n, true)))
}

func indent(lines string) string {
	return strings.ReplaceAll("  "+strings.TrimRight(lines, "\n"), "\n", "\n  ") + "\n"
}

// accounts writes all accounts with their users.
func accounts(t *text, public map[string]string, domain string) {
	t.line("accounts {\n  %s {\n    jetstream: enabled\n    exports: [", Account)
	for _, service := range natsperm.Services(domain) {
		kind := "singleton"
		if service.Several {
			kind = "stream"
		}
		t.line("      {service: %s, response_type: %s, accounts: [%s]}", quote(service.Subject), kind, Readers)
	}
	for _, subject := range natsperm.Feeds() {
		t.line("      {stream: %s, accounts: [%s]}", quote(subject), Readers)
	}
	t.line("    ]\n    users: [")
	users(t, public, domain, false)
	t.line("    ]\n  }\n  %s {\n    # Those who only read. Nothing that they name as a reply subject is in the account of Unloop.\n    imports: [", Readers)
	for _, service := range natsperm.Services(domain) {
		t.line("      {service: {account: %s, subject: %s}}", Account, quote(service.Subject))
	}
	for _, subject := range natsperm.Feeds() {
		t.line("      {stream: {account: %s, subject: %s}}", Account, quote(subject))
	}
	t.line("    ]\n    users: [")
	users(t, public, domain, true)
	t.line("    ]\n  }\n  %s {\n    # The servers themselves: nats server ls, nats server report.\n    users: [{nkey: %s}]\n  }\n}\nsystem_account: %s",
		System, public[SystemUser], System)
}

// users writes the users of one account.
func users(t *text, public map[string]string, domain string, reads bool) {
	for _, u := range natsperm.Users() {
		if u.Reads != reads {
			continue
		}
		t.line("      # %s\n      {nkey: %s, permissions: {", u.Does, public[u.Name])
		t.line("        publish: {allow: [%s]}", subjects(u.MayPublish(domain)))
		t.line("        subscribe: {allow: [%s]}\n      }}", subjects(u.MaySubscribe()))
	}
}

func subjects(all []string) string {
	var lines strings.Builder
	for _, s := range all {
		lines.WriteString("\n          " + quote(s))
	}
	if lines.Len() == 0 {
		return ""
	}
	return lines.String() + "\n        "
}
