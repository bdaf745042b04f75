package main

import (
	"os"

	"github.com/unloop/unloop/schemas/kit/service"
)

func main() { os.Exit(service.Program("chaos", run)) }
