package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// bar shows on a terminal how far a replay is: one line, written anew a few
// times a second. Elsewhere it shows nothing.
type bar struct {
	w           io.Writer // nil where it is no terminal
	total, done int64     // bytes
	requests    int
	drawn       time.Time
	shown       bool
}

const (
	barWidth = 30
	barPace  = 100 * time.Millisecond
	clearEnd = "\x1b[K" // the rest of the line
)

func newBar(w io.Writer, total int64) *bar {
	if !isTerminal(w) {
		w = nil
	}
	return &bar{w: w, total: total}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// count notes what is read of a file.
func (b *bar) count(r io.Reader) io.Reader { return &counted{r, b} }

type counted struct {
	r   io.Reader
	bar *bar
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.bar.done += int64(n)
	return n, err
}

// request notes a request, and draws if it is time to.
func (b *bar) request() {
	b.requests++
	if b.w == nil {
		return
	}
	if now := time.Now(); now.Sub(b.drawn) >= barPace {
		b.drawn, b.shown = now, true
		_, _ = io.WriteString(b.w, "\r"+b.line()+clearEnd)
	}
}

func (b *bar) line() string {
	if b.total <= 0 {
		return plural(b.requests, "request")
	}
	share := min(1, float64(b.done)/float64(b.total))
	filled := int(share * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f %%  %s", strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), 100*share, plural(b.requests, "request"))
}

// clear takes the bar away, for what is printed next.
func (b *bar) clear() {
	if b.shown {
		_, _ = io.WriteString(b.w, "\r"+clearEnd)
		b.shown = false
	}
}
