// Command embedworker runs one Unloop embedding worker against a NATS cluster.
package main

import (
	"os"

	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/schemas/kit/service"
)

func main() {
	var cli struct {
		service.Process
		service.Cluster
		embedworker.Config
	}
	os.Exit(service.Main("embedworker", &cli,
		func() (service.Process, service.Cluster) { return cli.Process, cli.Cluster },
		func(deps service.Deps) (service.Service, error) { return embedworker.New(cli.Config, deps) }))
}
