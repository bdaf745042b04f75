// Command testreport reads the output of `go test -json` and prints the line of each
// package and the output of failed tests. It keeps a list of the skipped tests with
// their reasons. It does not know what the tests do.
//
//	go test -json ./... | testreport -skips FILE    show, and add the skipped tests to FILE
//	testreport -summary FILE [-allowed FILE]        name the skipped tests in one line
//
// With -allowed, a skipped test that is not on the list is an error: what was not tested
// has not passed.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	skips := flag.String("skips", "", "add the skipped tests to this file")
	summary := flag.String("summary", "", "name the skipped tests of this file in one line")
	allowed := flag.String("allowed", "", "with -summary: fail for a test that this list does not have")
	flag.Parse()
	if err := run(*skips, *summary, *allowed, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

func run(skips, summary, allowed string, in io.Reader, out io.Writer) error {
	if summary != "" {
		return summarize(summary, allowed, out)
	}
	found, err := show(in, out)
	if err != nil || skips == "" {
		return err
	}
	return appendSkips(skips, found)
}
