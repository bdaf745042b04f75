// Command detector runs one Unloop detector against a NATS cluster.
package main

import (
	"os"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/schemas/kit/service"
)

func main() { os.Exit(service.Main("detector", new(detector.Command))) }
