package main

import (
	"fmt"
	"os"

	"github.com/unloop/unloop/schemas/kit/service"
)

func main() {
	ctx, stop := service.Context()
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}
