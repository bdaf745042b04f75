package main

import (
	"os"

	"github.com/unloop/unloop/deploy/unloop/cli"
	"github.com/unloop/unloop/schemas/kit/service"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == unloopRole {
		os.Exit(cli.Main(os.Args[2:]))
	}
	os.Exit(service.Program("bench", run))
}
