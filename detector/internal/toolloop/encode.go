package toolloop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// A stored state is a version byte and then sections, each a tag byte, a length in two
// bytes and that many bytes. A reader skips unknown tags and needs none of the known
// ones, so that states of older and newer versions stay readable. The version changes
// only when that is impossible.
const stateVersion = 1

// ErrState is the error for bytes that are no stored state.
var ErrState = errors.New("not a stored tool loop state")

// maxState bounds the bytes that [State.Parse] reads, far above the size of
// any State that this package makes.
const maxState = 4 << 20

// The tags of the sections. A tag never changes its meaning.
const (
	tagCounts = iota + 1
	tagItem
	tagHeads
	tagHeard
	tagStreak
	tagTool
	tagDetection
	tagLoose // of the item before it
	tagEmpty // of the tool before it
	tagOlder
	tagTurn   // the counts of the turn that tagCounts has not
	tagAt     // of the item before it
	tagPace   // of the streak before it
	tagStale  // of the tool before it
	tagPassed // of the detection before it
)

// Append appends the stored form of s to b, 1 to 3 KB for a busy session.
func (s State) Append(b []byte) []byte {
	c := codec{buf: append(b, stateVersion), writing: true}
	section(&c, tagCounts, &s)
	section(&c, tagTurn, turnCounts{&s})
	for i := range s.items {
		section(&c, tagItem, &s.items[i])
		if s.items[i].at != 0 {
			section(&c, tagAt, (*moment)(&s.items[i].at))
		}
		if loose := s.items[i].loose(); loose != nil {
			own := loose // on the heap, which most items need not
			section(&c, tagLoose, &own)
		}
	}
	if len(s.older) > 0 {
		section(&c, tagOlder, (*markList)(&s.older))
	}
	section(&c, tagHeads, (*keyList)(&s.heads))
	section(&c, tagHeard, (*keyList)(&s.heard))
	for i := range s.streaks {
		section(&c, tagStreak, &s.streaks[i])
		section(&c, tagPace, pace{&s.streaks[i]})
	}
	for i := range s.tools {
		section(&c, tagTool, &s.tools[i])
		if s.tools[i].empties > 0 {
			section(&c, tagEmpty, emptyRun{&s.tools[i]})
		}
		if s.tools[i].errors > 0 {
			section(&c, tagStale, staleErrors{&s.tools[i]})
		}
	}
	for i := range s.standing {
		section(&c, tagDetection, &s.standing[i])
		if s.standing[i].Passed > 0 {
			passed := s.standing[i].Passed.Milliseconds()
			section(&c, tagPassed, (*moment)(&passed))
		}
	}
	return c.buf
}

// Parse replaces s with a stored state. It returns [ErrState] for anything else and leaves s
// unchanged. Empty data is the state of an unknown session.
func (s *State) Parse(b []byte) error {
	if len(b) == 0 {
		*s = State{}
		return nil
	}
	if b[0] != stateVersion || len(b) > maxState {
		return fmt.Errorf("read version %d in %d bytes: %w", b[0], len(b), ErrState)
	}
	var out State
	c := codec{buf: b[1:]}
	for len(c.buf) > 0 && !c.bad {
		head := c.take(3)
		if c.bad {
			break
		}
		part := codec{buf: c.take(uint64(binary.BigEndian.Uint16(head[1:])))}
		if out.readSection(head[0], &part); part.bad {
			return fmt.Errorf("read section %d: %w", head[0], ErrState)
		}
	}
	if c.bad || !out.bounded() {
		return fmt.Errorf("read %d bytes: %w", len(b), ErrState)
	}
	*s = out
	return nil
}

// bounded reports whether s is within the bounds of every State.
func (s *State) bounded() bool {
	return len(s.items) <= 2*maxRemember && len(s.heads) <= maxHeads && len(s.heard) <= maxHeard &&
		len(s.streaks) <= maxStreaks && len(s.older) <= maxOlder && len(s.tools) <= maxTools && len(s.standing) <= maxDetections
}

func (s *State) readSection(tag byte, c *codec) {
	switch tag {
	case tagCounts:
		s.code(c)
	case tagItem:
		s.items = append(s.items, past{})
		s.items[len(s.items)-1].code(c)
	case tagLoose:
		var keys keyList
		keys.code(c)
		s.setLoose(keys)
	case tagOlder:
		(*markList)(&s.older).code(c)
	case tagTurn:
		turnCounts{s}.code(c)
	case tagAt, tagPace, tagStale, tagPassed:
		s.readRest(tag, c)
	case tagHeads:
		c.keys(&s.heads)
	case tagHeard:
		c.keys(&s.heard)
	case tagStreak:
		s.streaks = append(s.streaks, streak{})
		s.streaks[len(s.streaks)-1].code(c)
	case tagTool:
		s.tools = append(s.tools, tool{})
		s.tools[len(s.tools)-1].code(c)
	case tagEmpty:
		if n := len(s.tools); n > 0 {
			emptyRun{&s.tools[n-1]}.code(c)
		}
	case tagDetection:
		s.standing = append(s.standing, Detection{})
		s.standing[len(s.standing)-1].code(c)
	}
}

// readRest reads a section that belongs to the element before it.
func (s *State) readRest(tag byte, c *codec) {
	switch items, streaks, tools, standing := len(s.items), len(s.streaks), len(s.tools), len(s.standing); {
	case tag == tagAt && items > 0:
		(*moment)(&s.items[items-1].at).code(c)
	case tag == tagPace && streaks > 0:
		pace{&s.streaks[streaks-1]}.code(c)
	case tag == tagStale && tools > 0:
		staleErrors{&s.tools[tools-1]}.code(c)
	case tag == tagPassed && standing > 0:
		passed := int64(0)
		(*moment)(&passed).code(c)
		s.standing[standing-1].Passed = time.Duration(passed) * time.Millisecond
	}
}

// The functions called code write an element, or read it: each lists its fields once.

func (s *State) code(c *codec) {
	s.seen = time.UnixMilli(c.signed(s.seen.UnixMilli())).UTC()
	c.numbers(&s.round, &s.work, &s.calls, &s.failed, &s.wide, &s.total, &s.unique, &s.blocked, &s.most, &s.mostTool)
	one, two := s.doubt&1 != 0, s.doubt&2 != 0
	c.bools(&s.broken, &s.stopped, &one, &two)
	if s.doubt = 0; one {
		s.doubt = 1
	}
	if two {
		s.doubt |= 2
	}
}

func (it *past) code(c *codec) {
	c.key(&it.key)
	c.key(&it.chain)
	c.key(&it.id)
	c.bools(&it.human, &it.reset, &it.live, &it.released, &it.closed)
	if c.writing {
		for i := range it.calls {
			it.calls[i].code(c)
		}
		return
	}
	for len(c.buf) > 0 && !c.bad && len(it.calls) < maxParallel {
		it.calls = append(it.calls, pastCall{})
		it.calls[len(it.calls)-1].code(c)
	}
	if it.live && len(it.calls) != 1 || it.human && len(it.calls) > 0 {
		c.bad = true
	}
}

func (c *pastCall) code(to *codec) {
	to.key(&c.key)
	to.key(&c.result)
	to.key(&c.class)
	times, set := uint32(c.times), uint32(c.flags)
	to.numbers(&c.tool, &times, &set)
	if !to.writing {
		c.times, c.flags = uint16(min(times, 1<<16-1)), flags(set&0xffff) //nolint:gosec // both fit now
	}
}

// loose returns the loose keys of the round's calls; nil where none has one.
func (it *past) loose() keyList {
	var out keyList
	for i := range it.calls {
		if it.calls[i].loose != 0 && out == nil {
			out = make(keyList, len(it.calls))
		}
		if out != nil {
			out[i] = it.calls[i].loose
		}
	}
	return out
}

// setLoose sets the loose keys of the newest item's calls.
func (s *State) setLoose(keys []uint64) {
	if len(s.items) == 0 {
		return
	}
	calls := s.items[len(s.items)-1].calls
	for i := range calls[:min(len(calls), len(keys))] {
		calls[i].loose = keys[i]
	}
}

func (e *streak) code(c *codec) {
	c.key(&e.key)
	c.key(&e.result)
	c.numbers(&e.tool, &e.pure, &e.count, &e.done, &e.occurred, &e.warned, &e.round, &e.work)
	c.bools(&e.known)
}

func (t *tool) code(c *codec) {
	c.text(&t.name, maxToolName)
	c.key(&t.class)
	c.numbers(&t.hash, &t.round, &t.unknown, &t.errors)
	if c.keys(&t.args); len(t.args) > maxErrorArgs {
		c.bad = true
	}
}

// emptyRun is the run of empty results of a tool.
type emptyRun struct{ *tool }

func (t emptyRun) code(c *codec) {
	c.key(&t.nothing)
	c.numbers(&t.empties)
}

func (f *Detection) code(c *codec) {
	level := uint32(f.Level)
	c.text(&f.Rule, maxToolName)
	c.text(&f.Tool, (maxToolName+1)*maxNamed)
	c.key(&f.call)
	c.numbers(&level, &f.mark)
	c.ints(&f.Count, &f.Threshold, &f.Period, &f.Backoff)
	if !c.writing {
		f.Level = Level(min(level, uint32(Break))) //nolint:gosec // at most Break
	}
	c.bools(&f.Poll, &f.Worked, &f.Similar, &f.Slow, &f.Once)
}

// turnCounts are further counts of a turn.
type turnCounts struct{ *State }

func (s turnCounts) code(c *codec) {
	c.numbers(&s.stalled, &s.changes)
	c.times(&s.asked)
	if c.keys(&s.errors); len(s.errors) > maxErrors {
		c.bad = true
	}
}

// pace is how a streak's occurrences came.
type pace struct{ *streak }

func (e pace) code(c *codec) {
	c.numbers(&e.edits, &e.steady, &e.changes, &e.rate.hasty, &e.rate.soon)
	c.times(&e.rate.first, &e.rate.last)
}

// staleErrors are the errors of a tool that told nothing new.
type staleErrors struct{ *tool }

func (t staleErrors) code(c *codec) {
	c.numbers(&t.stale, &t.work)
	if c.keys(&t.told); len(t.told) > maxErrors {
		c.bad = true
	}
}

// moment is a time in milliseconds.
type moment int64

func (m *moment) code(c *codec) { c.times((*int64)(m)) }

// keyList is a list of keys that is a section.
type keyList []uint64

func (l *keyList) code(c *codec) { c.keys((*[]uint64)(l)) }

// markList is a list of marks that is a section.
type markList []uint32

func (l *markList) code(c *codec) {
	for _, mark := range *l {
		c.buf = binary.BigEndian.AppendUint32(c.buf, mark)
	}
	for !c.writing && len(c.buf) > 0 && !c.bad {
		if b := c.take(4); b != nil {
			*l = append(*l, binary.BigEndian.Uint32(b))
		}
	}
}
