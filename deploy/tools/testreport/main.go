// Command testreport reads the output of `go test -json` and prints the line of each
// package and the output of failed tests. It keeps lists of the failed tests with their
// output and of the skipped tests with their reasons. It does not know what the tests do.
//
//	go test -json ./... | testreport -skips FILE -failures FILE    show, and add to the files
//	testreport -summary FILE [-failures FILE] [-allowed FILE]      name the tests of the files
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
	var f files
	flag.StringVar(&f.skips, "skips", "", "add the skipped tests to this file")
	flag.StringVar(&f.failures, "failures", "", "add the failed tests and their output to this file; with -summary: name its tests in one line")
	flag.StringVar(&f.summary, "summary", "", "name the skipped tests of this file in one line")
	flag.StringVar(&f.allowed, "allowed", "", "with -summary: fail for a test that this list does not have")
	flag.Parse()
	if err := run(f, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

// files are the flags.
type files struct{ skips, failures, summary, allowed string }

func run(f files, in io.Reader, out io.Writer) error {
	if f.summary != "" {
		if err := summarize(f.summary, f.allowed, out); err != nil || f.failures == "" {
			return err
		}
		return nameFailures(f.failures, out)
	}
	found, err := show(in, out)
	if err == nil && f.skips != "" {
		err = appendSkips(f.skips, found.skips)
	}
	if err == nil && f.failures != "" {
		err = appendFailures(f.failures, found.failures)
	}
	return err
}
