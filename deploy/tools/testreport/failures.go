package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// failure is a failed test with its output, or a package that failed beside its tests.
type failure struct {
	test   string
	output []string
}

const (
	// heading begins the output of each failure in the file of failures.
	heading = "=== "
	// maxLines bounds the lines of one failure, of which the last are kept.
	maxLines = 200
)

// appendFailures adds failures to a file. A test that failed with one of its subtests is
// left out, unless it has output of its own.
func appendFailures(file string, failures []failure) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("note the failed tests: %w", err)
	}
	for _, one := range failures {
		if parent(one, failures) {
			continue
		}
		lines := one.output[max(0, len(one.output)-maxLines):]
		if _, err = fmt.Fprintf(f, "%s%s\n%s", heading, one.test, strings.Join(lines, "")); err != nil {
			break
		}
	}
	return errors.Join(err, f.Close())
}

// parent reports whether a subtest failed, and nothing else of a test.
func parent(one failure, all []failure) bool {
	return slices.ContainsFunc(all, func(other failure) bool { return strings.HasPrefix(other.test, one.test+"/") }) &&
		!slices.ContainsFunc(one.output, position.MatchString)
}

// nameFailures names the failures of a file in one line; without any it prints nothing.
func nameFailures(file string, out io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the failed tests: %w", err)
	}
	var names []string
	for row := range strings.Lines(string(text)) {
		// Lines of tests that begin so, too, are indented or have no dot.
		if name, found := strings.CutPrefix(strings.TrimSuffix(row, "\n"), heading); found && !strings.Contains(name, " ") {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(out, "failed: %d: %s\n", len(names), strings.Join(names, "; "))
	}
	return nil
}
