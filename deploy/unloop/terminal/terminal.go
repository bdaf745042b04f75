// Package terminal formats the output of commands: tables that fit the width of the screen,
// colours where the screen shows them, times in the reader's time zone.
//
// It knows nothing of the data that it prints.
package terminal

import (
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// Screen describes where a command prints. The zero Screen is a file or a pipe: tables have
// their full width and no colours.
type Screen struct {
	// Width is the number of columns; 0 means no limit.
	Width int
	// Colour allows coloured text.
	Colour bool
	// Live is true for a terminal, which can be cleared and redrawn.
	Live bool
}

// Detect returns the screen behind a writer. It honours the variables COLUMNS, NO_COLOR
// (no-color.org), CLICOLOR_FORCE and TERM=dumb.
func Detect(w io.Writer, variable func(name string) string) Screen {
	var s Screen
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		s.Live, s.Colour = true, true
		s.Width, _, _ = term.GetSize(int(file.Fd())) // 0 if the terminal does not know
	}
	if columns, err := strconv.Atoi(variable("COLUMNS")); err == nil && columns > 0 {
		s.Width = columns
	}
	if variable("TERM") == "dumb" {
		s.Live, s.Colour = false, false
	}
	if forced := variable("CLICOLOR_FORCE"); forced != "" && forced != "0" {
		s.Colour = true
	}
	if variable("NO_COLOR") != "" {
		s.Colour = false
	}
	return s
}

// Style is the look of a text on a screen with colours.
type Style string

// The styles, as SGR parameters (ECMA-48).
const (
	Plain  Style = ""
	Bold   Style = "1"
	Faint  Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Paint returns a text in a style, if the screen has colours.
func (s Screen) Paint(style Style, text string) string {
	if !s.Colour || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// Clear returns the escape sequence that empties a live screen; "" for others.
func (s Screen) Clear() string {
	if !s.Live {
		return ""
	}
	return "\x1b[H\x1b[2J\x1b[3J"
}

// Clean returns a text on one line, with control characters replaced: a name that a client
// sent must not move the cursor.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < 0x20, r == 0x7f, 0x80 <= r && r < 0xa0, r == '\u202e', r == '\u2028', r == '\u2029':
			return '\ufffd'
		}
		return r
	}, text)
}
