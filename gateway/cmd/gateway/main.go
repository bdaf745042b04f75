// Command gateway runs one Unloop gateway against a NATS cluster.
package main

import (
	"os"

	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/kit/service"
)

func main() {
	var cli struct {
		service.Process
		service.Cluster
		gateway.Config
	}
	os.Exit(service.Main("gateway", &cli,
		func() (service.Process, service.Cluster) { return cli.Process, cli.Cluster },
		func(deps service.Deps) (service.Service, error) {
			if err := cli.CheckGuarded("--listen", cli.Listen, "--auth", cli.Guarded()); err != nil {
				return nil, err
			}
			return gateway.New(cli.Config, deps)
		}))
}
