// Command notifier delivers Unloop's events to a webhook, as a process of its
// own beside a NATS cluster.
package main

import (
	"os"

	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas/kit/service"
)

func main() { os.Exit(service.Main("notifier", new(notifier.Command))) }
