package rounds

import (
	"bytes"
	"hash/maphash"

	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

const (
	// minLines is the minimum number of different lines of a result that is compared line by
	// line, and minLine the minimum size of a line, in bytes.
	minLines, minLine = 5, 8
	// maxLines is the number of lines from which on a result is not compared.
	maxLines = 4096
	// probe is the number of bytes of a line that are searched for first. Nearly all results have
	// a line that occurs nowhere else, which settles it.
	probe = 48
	// bitsPerLine is the size of a Bloom filter per line. With two bits set for each line, 1 in 40
	// other lines is a false positive.
	bitsPerLine = 12
)

// retold reports whether each line of the newest round's results occurs in an earlier result:
// other windows of a file, or another search for the same thing. Short lines do not count, nor do
// the first and the last line of a result, which may say what follows. If the conversation
// continues, the slots keep filters of their lines.
func (h *history) retold(continues bool) bool {
	newest := h.newest()
	if newest == nil || len(newest.calls) == 0 || len(newest.content) == 0 {
		return false
	}
	var longest []byte // rarely occurs elsewhere, which settles nearly all results
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
	if len(longest) < minLine || !h.stands(newest, longest, continues) {
		return false
	}
	lines := map[string]bool{}
	for i := range newest.content {
		eachLine(newest.content[i].Value, func(line []byte, edge bool) {
			if !edge && len(line) >= minLine && len(lines) < maxLines {
				lines[string(line)] = true
			}
		})
	}
	if len(lines) < minLines || len(lines) == maxLines || !h.probed(newest, lines, continues) {
		return false
	}
	h.earlier(newest, func(value []byte) bool {
		eachLine(value, func(line []byte, _ bool) { delete(lines, string(line)) })
		return len(lines) > 0
	})
	return len(lines) == 0
}

// probed reports whether a few of the lines may all occur in earlier results.
func (h *history) probed(newest *slot, lines map[string]bool, continues bool) bool {
	const probes = 3
	n := 0
	for line := range lines {
		if n++; n > probes {
			break
		}
		if !h.stands(newest, []byte(line), continues) {
			return false
		}
	}
	return true
}

// stands reports whether a line may occur in an earlier result.
func (h *history) stands(newest *slot, line []byte, continues bool) bool {
	part := line[:min(len(line), probe)]
	for i := range h.slots {
		s := &h.slots[i]
		switch {
		case s == newest || len(s.content) == 0:
		case continues:
			if s.lines == nil {
				s.lines = linesOf(s.content)
			}
			if s.lines.has(line) {
				return true
			}
		case s.contains(part):
			return true
		}
	}
	return false
}

func (s *slot) contains(part []byte) bool {
	for k := range s.content {
		if p := &s.content[k]; p.Kind == message.Text && bytes.Contains(p.Value, part) {
			return true
		}
	}
	return false
}

// lineSet is a Bloom filter of the lines of results.
type lineSet []uint64

// linesSeed is secret, so that nobody can construct lines that fill a filter.
var linesSeed = maphash.MakeSeed()

func linesOf(content []message.Part) lineSet {
	var hashes []uint64
	for i := range content {
		if content[i].Kind != message.Text {
			continue
		}
		eachLine(content[i].Value, func(line []byte, _ bool) {
			if len(line) >= minLine {
				hashes = append(hashes, maphash.Bytes(linesSeed, line))
			}
		})
	}
	set := make(lineSet, 1+len(hashes)*bitsPerLine/64)
	for _, hash := range hashes {
		for _, bit := range set.bits(hash) {
			set[bit/64] |= 1 << (bit % 64)
		}
	}
	return set
}

// bits returns the two bits of a line.
func (s lineSet) bits(hash uint64) [2]uint64 {
	n := uint64(len(s)) * 64
	return [2]uint64{hash >> 32 % n, hash & (1<<32 - 1) % n}
}

// has reports whether a line may be in the set.
func (s lineSet) has(line []byte) bool {
	for _, bit := range s.bits(maphash.Bytes(linesSeed, line)) {
		if s[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
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
	for i := 0; i+1 < len(value); i += 2 {
		n := bytes.IndexByte(value[i:len(value)-1], '\\')
		if n < 0 {
			break
		}
		if i += n; value[i+1] == 'n' {
			emit(bytes.TrimSpace(value[from:i]), first)
			from, first = i+2, false
		}
	}
	emit(bytes.TrimSpace(value[from:]), true)
}
