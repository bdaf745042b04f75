package pull

import (
	"fmt"
	"io"
	"strings"
)

// Bar returns a Progress that draws a bar a file on a terminal: a line that is
// written anew each time a percent is gained.
func Bar(w io.Writer) func(Progress) {
	const width = 30
	last := ""
	return func(p Progress) {
		share := 1.0
		if p.Total > 0 {
			share = min(1, float64(p.Done)/float64(p.Total))
		}
		filled := int(share * width)
		line := fmt.Sprintf("\r%-20s [%s%s] %3.0f %% of %.1f MB", p.Name,
			strings.Repeat("=", filled), strings.Repeat(" ", width-filled), 100*share, float64(p.Total)/1e6)
		if p.Ready {
			line += "\n"
		}
		if line != last {
			_, _ = io.WriteString(w, line)
			last = line
		}
	}
}
