package pull

import (
	"fmt"
	"io"
	"strings"
)

// Bar returns a Progress that draws a bar a file on a terminal: a line that is
// written anew each time a percent is gained. end ends a line that has begun, as
// after an error.
func Bar(w io.Writer) (draw func(Progress), end func()) {
	const width = 30
	last := ""
	draw = func(p Progress) {
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
	end = func() {
		if last != "" && !strings.HasSuffix(last, "\n") {
			_, _ = io.WriteString(w, "\n")
		}
		last = ""
	}
	return draw, end
}
