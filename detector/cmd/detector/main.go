// Command detector runs one Unloop detector against a NATS cluster.
package main

import (
	"os"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/schemas/kit/service"
)

func main() {
	var cli struct {
		service.Process
		service.Cluster
		detector.Config
	}
	os.Exit(service.Main("detector", &cli,
		func() (service.Process, service.Cluster) { return cli.Process, cli.Cluster },
		func(deps service.Deps) (service.Service, error) { return detector.New(cli.Config, deps) }))
}
