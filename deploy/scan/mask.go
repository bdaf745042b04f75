package scan

import (
	"regexp"
	"strings"
)

// Masking hides what is private in a page: the names of people in paths, and addresses. Keys
// are masked in what is scanned already.
type Masking struct {
	// Home is the home folder of whoever scans; "" for none.
	Home string
	// Off masks nothing.
	Off bool
}

var (
	// homes matches the name of a person in a path, also in one within JSON, and in one that
	// Claude Code names a folder by.
	homes     = regexp.MustCompile(`(?i)(/home/|/Users/|\\+Users\\+|(?:^|[/\\\s"'])-(?:home|Users)-)[^-/\\\s"'][^/\\\s"']*`)
	addresses = regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}`)
)

// Text returns a text without what is private.
func (m Masking) Text(s string) string {
	if m.Off {
		return s
	}
	if len(m.Home) > 1 {
		s = strings.ReplaceAll(s, m.Home, "~")
		s = strings.ReplaceAll(s, strings.ReplaceAll(m.Home, "/", "-"), "~") // as Claude Code names folders
	}
	s = homes.ReplaceAllString(s, "${1}…")
	return addresses.ReplaceAllString(s, "…@…")
}
