package rounds

import (
	"bytes"

	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

const (
	// leastLines is how many different lines a result must have to be compared line by
	// line, and leastLine the minimum size of a line, in bytes.
	leastLines, leastLine = 5, 8
	// mostLines is the number of lines from which on a result is not compared.
	mostLines = 4096
	// probe is how much of a line is looked for first. Nearly all results have a line that
	// is nowhere else, and need no more.
	probe = 48
)

// retold reports whether each line of the newest round's results stands in an earlier
// result: other windows of a file, or another search for the same. The first and the last
// line of a result, which may say what follows, and short ones do not count.
func (h *history) retold() bool {
	newest := h.newest()
	if newest == nil || len(newest.calls) == 0 || len(newest.content) == 0 {
		return false
	}
	var longest []byte // which is seldom elsewhere: nearly all results need no more
	for i := range newest.content {
		p := &newest.content[i]
		if p.Kind != message.Text {
			return false
		}
		eachLine(p.Value, func(line []byte, edge bool) {
			if !edge && len(line) > len(longest) {
				longest = line
			}
		})
	}
	if len(longest) < leastLine || !h.stands(newest, longest) {
		return false
	}
	lines := map[string]bool{}
	for i := range newest.content {
		eachLine(newest.content[i].Value, func(line []byte, edge bool) {
			if !edge && len(line) >= leastLine && len(lines) < mostLines {
				lines[string(line)] = true
			}
		})
	}
	if len(lines) < leastLines || len(lines) == mostLines || !h.probed(newest, lines) {
		return false
	}
	h.earlier(newest, func(value []byte) bool {
		eachLine(value, func(line []byte, _ bool) { delete(lines, string(line)) })
		return len(lines) > 0
	})
	return len(lines) == 0
}

// probed reports whether some of the lines may stand in earlier results.
func (h *history) probed(newest *slot, lines map[string]bool) bool {
	const probes = 3
	n := 0
	for line := range lines {
		if n++; n > probes {
			break
		}
		if !h.stands(newest, []byte(line)) {
			return false
		}
	}
	return true
}

// stands reports whether a line may stand in an earlier result.
func (h *history) stands(newest *slot, line []byte) (found bool) {
	part := line[:min(len(line), probe)]
	h.earlier(newest, func(value []byte) bool {
		found = bytes.Contains(value, part)
		return !found
	})
	return found
}

// earlier calls look with the texts of the results before the newest round, until it
// returns false.
func (h *history) earlier(newest *slot, look func(value []byte) bool) {
	for i := range h.slots {
		s := &h.slots[i]
		if s == newest {
			continue
		}
		for k := range s.content {
			if p := &s.content[k]; p.Kind == message.Text && !look(p.Value) {
				return
			}
		}
	}
}

// eachLine calls emit with the lines of a text in JSON, as they are written there and
// without the white space around them, and with whether they are the first or the last.
func eachLine(value []byte, emit func(line []byte, edge bool)) {
	from, first := 0, true
	for i := 0; i+1 < len(value); i++ {
		if value[i] != '\\' {
			continue
		}
		if value[i+1] == 'n' {
			emit(bytes.TrimSpace(value[from:i]), first)
			from, first = i+2, false
		}
		i++
	}
	emit(bytes.TrimSpace(value[from:]), true)
}
