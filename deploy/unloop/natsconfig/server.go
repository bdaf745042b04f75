package natsconfig

import (
	_ "embed"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"text/template"

	"github.com/unloop/unloop/schemas/kit/natsperm"
)

//go:embed server.conf.tmpl
var serverText string

// serverTemplate is a server's configuration.
var serverTemplate = template.Must(template.New("server").Funcs(template.FuncMap{
	"quote": quote,
	"addr":  func(host string, port int) string { return quote(net.JoinHostPort(host, strconv.Itoa(port))) },
	"route": func(n Node) string {
		return quote("nats-route://" + net.JoinHostPort(n.Host, strconv.Itoa(n.RoutePort)))
	},
}).Parse(serverText))

// quote returns a string as a quoted value. Validate admits no others that need escapes.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// serverUser is a user in a server's configuration.
type serverUser struct {
	Does, Key          string
	Publish, Subscribe []string
}

// server returns the configuration of a server. public has the users' public keys, links the
// regions that may join.
func (c Config) server(n Node, public map[string]string, links []link) (string, error) {
	data := struct {
		Config
		Node                     Node
		Store, CA, Cert, Key     string
		Account, Readers, System string
		Services                 []natsperm.Service
		Feeds                    []string
		Writing, Reading         []serverUser
		SystemKey                string
		Links                    []link
		Name, Cluster            string
		OriginCA, Link           string
	}{
		Config: c, Links: links, Name: c.serverName(n), Cluster: c.inRegion("unloop"), OriginCA: c.originCA(), Link: fileLink, Node: n, Store: strings.ReplaceAll(c.StoreDir, "%s", n.Name), CA: c.TLS.CA, Cert: c.TLS.Cert, Key: c.TLS.Key,
		Account: Account, Readers: Readers, System: System, Services: natsperm.Services(c.Domain), Feeds: natsperm.Feeds(), SystemKey: public[SystemUser],
	}
	if c.TLS.On {
		data.CA, data.Cert, data.Key = path.Join(c.ServerDir, fileCA), path.Join(c.ServerDir, n.Name+".pem"), path.Join(c.ServerDir, n.Name+"-key.pem")
	}
	for _, u := range natsperm.UsersOf(c.Partitions) {
		list := &data.Writing
		if u.Reads {
			list = &data.Reading
		}
		*list = append(*list, serverUser{u.Does, public[u.Name], u.MayPublish(c.Domain), u.MaySubscribe()})
	}
	var text strings.Builder
	if err := serverTemplate.Execute(&text, data); err != nil {
		return "", fmt.Errorf("write the configuration of %s: %w", n.Name, err)
	}
	return text.String(), nil
}

// serverName returns the name of a server. NATS takes two leaf nodes with the same names of
// server and cluster for one that has reconnected, and drops the first. The name of a server
// in a cluster must never change, because it identifies the replicas on that server.
func (c Config) serverName(n Node) string {
	if len(c.Nodes) > 1 {
		return n.Name
	}
	return c.inRegion(n.Name)
}

// inRegion makes a name unique among regions.
func (c Config) inRegion(name string) string {
	if c.Origin != nil || len(c.Regions) > 0 {
		return name + "-" + c.Domain
	}
	return name
}
