package scan

import (
	"regexp"
	"strings"
)

// Masking hides names of people in paths and e-mail addresses. Keys were masked before.
type Masking struct {
	// Home is the home folder of whoever scans; "" for none.
	Home string
	// Off masks nothing.
	Off bool
}

var (
	// homes matches the name of a person in a path, also within JSON, and in the names that
	// Claude Code gives to folders.
	homes     = regexp.MustCompile(`(?i)(/home/|/Users/|\\+Users\\+|(?:^|[/\\\s"'])-(?:home|Users)-)[^-/\\\s"'][^/\\\s"']*`)
	addresses = regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}`)
)

// Text masks a text.
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
