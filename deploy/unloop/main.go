// Command unloop is all of Unloop in one binary; see `unloop --help`.
package main

import (
	"os"

	"github.com/unloop/unloop/deploy/unloop/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
