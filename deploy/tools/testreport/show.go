package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
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
	// ImportPath is of build-output; FailedBuild names that of a package that did not build.
	ImportPath  string
	FailedBuild string
}

// skip is a skipped test with its reason.
type skip struct{ test, reason string }

// found is what a run had besides tests that passed.
type found struct {
	skips    []skip
	failures []failure
}

// show writes the lines of packages and the output of failed tests, and returns the
// skipped and failed tests. A line that is not an event is written as it is.
func show(in io.Reader, out io.Writer) (found, error) {
	var r found
	output := map[string][]string{} // of tests and packages that have not ended
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.add(line, output, out)
		}
		switch {
		case err == io.EOF:
			return r, nil
		case err != nil:
			return r, fmt.Errorf("read the test's output: %w", err)
		}
	}
}

// add takes one line.
func (r *found) add(line string, output map[string][]string, out io.Writer) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil {
		fmt.Fprint(out, line)
		return
	}
	if e.Action == "build-output" {
		fmt.Fprint(out, e.Output)
		output[e.ImportPath] = append(output[e.ImportPath], e.Output)
		return
	}
	key := e.Package + "." + e.Test
	switch e.Action {
	case "output":
		if e.Test == "" && !noise(e.Output) {
			fmt.Fprint(out, e.Output)
		}
		output[key] = append(output[key], e.Output)
		return
	case "fail":
		if e.Test == "" {
			output[key] = append(unended(e.Package, output, out), output[key]...)
		}
		r.fail(e, output[key], output[e.FailedBuild], out)
	case "skip":
		if e.Test != "" {
			r.skips = append(r.skips, skip{path.Base(e.Package) + "." + e.Test, reason(output[key])})
		}
	case "pass":
	default:
		return
	}
	delete(output, key)
}

// fail notes a failed test, or a package that did not build or ended by itself.
func (r *found) fail(e event, output, build []string, out io.Writer) {
	name := path.Base(e.Package)
	if e.Test != "" {
		fmt.Fprint(out, strings.Join(output, ""))
		r.failures = append(r.failures, failure{name + "." + e.Test, output})
		return
	}
	tests := slices.ContainsFunc(r.failures, func(f failure) bool { return strings.HasPrefix(f.test, name+".") })
	if len(build) > 0 || !tests {
		r.failures = append(r.failures, failure{name, append(build, output...)})
	}
}

// unended takes and prints the output of those tests of a failed package that never ended,
// because the process did: a panic, or the stacks of a test that hung.
func unended(pkg string, output map[string][]string, out io.Writer) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(output)) {
		if test, ok := strings.CutPrefix(key, pkg+"."); ok && test != "" {
			fmt.Fprint(out, strings.Join(output[key], ""))
			all = append(all, output[key]...)
			delete(output, key)
		}
	}
	return all
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
