package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// appendSkips adds one line for each test to a file: the test, a tab, the
// reason.
func appendSkips(file string, skips []skip) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("note the skipped tests: %w", err)
	}
	for _, s := range skips {
		if _, err = fmt.Fprintf(f, "%s\t%s\n", s.test, s.reason); err != nil {
			break
		}
	}
	return errors.Join(err, f.Close())
}

// summarize prints all skipped tests in one line. With a list, it returns an error that
// names the tests that are not on it.
func summarize(file, list string, out io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the skipped tests: %w", err)
	}
	skips := parse(string(text))
	fmt.Fprintln(out, line(skips))
	if list == "" {
		return nil
	}
	patterns, err := os.ReadFile(list)
	if err != nil {
		return fmt.Errorf("read the tests that may be skipped: %w", err)
	}
	return refuse(skips, string(patterns))
}

func parse(text string) []skip {
	var out []skip
	for row := range strings.Lines(text) {
		test, why, _ := strings.Cut(strings.TrimSuffix(row, "\n"), "\t")
		out = append(out, skip{test, why})
	}
	return out
}

func line(skips []skip) string {
	if len(skips) == 0 {
		return "skipped: nothing"
	}
	names := make([]string, len(skips))
	for i, s := range skips {
		names[i] = s.test + " (" + s.reason + ")"
	}
	return fmt.Sprintf("skipped: %d: %s", len(skips), strings.Join(names, "; "))
}

// refuse returns an error that names the tests that no pattern of the list matches. Each
// line of the list is a pattern of path.Match; lines with # are comments.
func refuse(skips []skip, list string) error {
	var unlisted []string
	for _, s := range skips {
		if !listed(s.test, list) {
			unlisted = append(unlisted, s.test)
		}
	}
	if len(unlisted) == 0 {
		return nil
	}
	return fmt.Errorf("skipped without being on the list of tests that may be: %s", strings.Join(unlisted, ", "))
}

func listed(test, list string) bool {
	for row := range strings.Lines(list) {
		pattern := strings.TrimSpace(row)
		if pattern == "" || pattern[0] == '#' {
			continue
		}
		// Subtests have slashes, which path.Match keeps apart.
		if ok, err := path.Match(pattern, strings.ReplaceAll(test, "/", ".")); ok && err == nil {
			return true
		}
	}
	return false
}
