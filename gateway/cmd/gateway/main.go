// Command gateway runs one Unloop gateway against a NATS cluster.
package main

import (
	"os"

	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/kit/service"
)

func main() { os.Exit(service.Main("gateway", new(gateway.Command))) }
