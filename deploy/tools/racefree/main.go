// Command racefree reads `go list -json` of packages, and prints the import paths of those
// in which no data race can be: neither they, nor their tests, nor the packages of ours
// that they import start a goroutine, synchronise, speak to a network or start a process,
// or change a package's variable. Their tests bring the same results without the race
// detector, at a fraction of the time.
//
//	go list -json=ImportPath,Dir,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles PACKAGE… | racefree
//
// It reads source text alone. What it is not sure of, it does not print.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "racefree:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	all, err := readPackages(in)
	if err != nil {
		return err
	}
	for _, path := range all.raceFree() {
		fmt.Fprintln(out, path)
	}
	return nil
}
