// Command notifier delivers Unloop's events to a webhook, as a process of its
// own beside a NATS cluster.
package main

import (
	"os"

	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas/kit/service"
)

func main() {
	var cli struct {
		service.Process `embed:""`
		service.Cluster `embed:""`
		Notifier        notifier.Config `embed:""`
	}
	os.Exit(service.Main("notifier", &cli,
		func() (service.Process, service.Cluster) { return cli.Process, cli.Cluster },
		func(deps service.Deps) (service.Service, error) { return notifier.New(cli.Notifier, deps) }))
}
