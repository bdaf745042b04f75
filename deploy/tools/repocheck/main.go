// Command repocheck checks rules that the linter, which sees one package at a time, cannot
// check: the sizes of files and of functions as a whole, calls of C, markers of unfinished work,
// registries in lock files, and the versions that modules require. It also counts the lines of
// production code.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: repocheck ROOT")
		os.Exit(2)
	}
	report, err := checkTree(os.DirFS(os.Args[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for _, f := range report.findings {
		fmt.Println(f)
	}
	fmt.Println(report.sizes)
	fmt.Println(report.lines)
	if len(report.findings) > 0 {
		fmt.Printf("%d faults\n", len(report.findings))
		os.Exit(1)
	}
}
