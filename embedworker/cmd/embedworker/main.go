// Command embedworker runs one Unloop embedding worker against a NATS cluster.
package main

import (
	"os"

	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/schemas/kit/service"
)

func main() { os.Exit(service.Main("embedworker", new(embedworker.Command))) }
