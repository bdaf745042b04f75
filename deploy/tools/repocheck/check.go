package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// finding is a violation of a rule.
type finding struct {
	path string
	line int
	text string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.text) }

// report is the result of a check.
type report struct {
	findings []finding
	sizes    functionSizes
	lines    lineCount
	required requirements
}

// unfinished matches markers of unfinished work. They are split here, so that this file does not
// contain them.
var unfinished = regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"}, "|") + `)\b`)

// skipped are folders that are not checked.
var skipped = []string{".git", "bin", "dist", "node_modules", "testdata"}

// textual are the suffixes of files that are searched for markers.
var textual = []string{".go", ".sh", ".yaml", ".yml", ".proto", ".js", ".cjs", ".mjs", ".md", "Makefile", "Dockerfile", "/run"}

// checkTree applies every rule to every file of the tree.
func checkTree(tree fs.FS) (report, error) {
	r := report{required: requirements{}}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains(skipped, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		return r.checkFile(tree, name)
	})
	if err != nil {
		return report{}, fmt.Errorf("read the tree: %w", err)
	}
	r.findings = append(r.findings, r.sizes.check()...)
	r.findings = append(r.findings, r.required.check()...)
	slices.SortFunc(r.findings, func(a, b finding) int {
		if c := strings.Compare(a.path, b.path); c != 0 {
			return c
		}
		return a.line - b.line
	})
	return r, nil
}

func (r *report) checkFile(tree fs.FS, name string) error {
	if !slices.ContainsFunc(textual, func(end string) bool { return strings.HasSuffix(name, end) }) && !isLock(name) && path.Base(name) != "go.mod" {
		return nil
	}
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	switch {
	case path.Base(name) == "go.mod":
		r.required.add(name, text)
		return nil
	case isLock(name):
		r.addLines(name, text, regexp.MustCompile(`"resolved":`), "a lock file names the registry it was made with")
		return nil
	case path.Ext(name) == ".go":
		if err := r.checkGo(name, text); err != nil {
			return err
		}
	}
	r.addLines(name, text, unfinished, "a marker of unfinished work")
	return nil
}

func isLock(name string) bool { return path.Base(name) == "package-lock.json" }

// addLines adds a finding for each line that the pattern matches.
func (r *report) addLines(name string, text []byte, pattern *regexp.Regexp, what string) {
	if !pattern.Match(text) {
		return
	}
	for i, line := range bytes.Split(text, []byte("\n")) {
		if pattern.Match(line) {
			r.findings = append(r.findings, finding{name, i + 1, what})
		}
	}
}
