package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
)

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// skip is a skipped test with its reason.
type skip struct{ test, reason string }

// show writes the lines of packages and the output of failed tests, and returns the
// skipped tests. A line that is not an event is written as it is.
func show(in io.Reader, out io.Writer) ([]skip, error) {
	var skips []skip
	output := map[string][]string{} // of tests that have not ended
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			skips = showLine(line, output, skips, out)
		}
		switch {
		case err == io.EOF:
			return skips, nil
		case err != nil:
			return nil, fmt.Errorf("read the test's output: %w", err)
		}
	}
}

func showLine(line string, output map[string][]string, skips []skip, out io.Writer) []skip {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil {
		fmt.Fprint(out, line)
		return skips
	}
	name := path.Base(e.Package) + "." + e.Test
	key := e.Package + "." + e.Test
	switch {
	case e.Action == "build-output", e.Action == "output" && e.Test == "" && !noise(e.Output):
		fmt.Fprint(out, e.Output)
	case e.Action == "output":
		output[key] = append(output[key], e.Output)
	case e.Action == "fail" && e.Test != "":
		fmt.Fprint(out, strings.Join(output[key], ""))
		delete(output, key)
	case e.Action == "skip" && e.Test != "":
		skips = append(skips, skip{name, reason(output[key])})
		delete(output, key)
	case e.Action == "pass":
		delete(output, key)
	}
	return skips
}

// noise reports whether a line of a package repeats others.
func noise(line string) bool { return line == "PASS\n" }

// position matches the position in the source that the testing package puts before a
// message.
var position = regexp.MustCompile(`^\s+\S+\.go:\d+: `)

// reason returns the last message of a test's output.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if position.MatchString(line) {
			return strings.TrimSpace(position.ReplaceAllString(line, ""))
		}
	}
	return "no reason given"
}
