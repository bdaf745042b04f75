package toolloop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// A stored state is a version byte and then sections, each a tag byte, a length in
// two bytes and that many bytes. A reader skips the tags that it does not know and does without
// those that are missing, so that states of older and newer versions stay
// readable; the version rises only when that can't be kept up.
const stateVersion = 1

// ErrState is returned for bytes that are no stored state.
var ErrState = errors.New("not a stored tool loop state")

// maxState bounds what [State.UnmarshalBinary] reads: far more than any State that
// this package makes.
const maxState = 4 << 20

// The tags of the sections. A tag is never used for something else.
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
)

// MarshalBinary returns s in compact form, around 1 to 3 KB for a busy session.
func (s State) MarshalBinary() ([]byte, error) {
	w := writer{buf: append(make([]byte, 0, 4096), stateVersion)}
	section(&w, tagCounts, &s)
	for i := range s.items {
		section(&w, tagItem, &s.items[i])
		if loose := s.items[i].loose(); loose != nil {
			section(&w, tagLoose, &loose)
		}
	}
	section(&w, tagHeads, (*keyList)(&s.heads))
	section(&w, tagHeard, (*keyList)(&s.heard))
	for i := range s.streaks {
		section(&w, tagStreak, &s.streaks[i])
	}
	for i := range s.tools {
		section(&w, tagTool, &s.tools[i])
		if s.tools[i].empties > 0 {
			section(&w, tagEmpty, emptyRun{&s.tools[i]})
		}
	}
	for i := range s.standing {
		section(&w, tagDetection, &s.standing[i])
	}
	return w.buf, nil
}

// UnmarshalBinary replaces s with a stored state. It fails with [ErrState] on
// anything else, and leaves s as it was. No bytes as such are a session of which
// nothing is known.
func (s *State) UnmarshalBinary(b []byte) error {
	if len(b) == 0 {
		*s = State{}
		return nil
	}
	if b[0] != stateVersion || len(b) > maxState {
		return fmt.Errorf("read version %d in %d bytes: %w", b[0], len(b), ErrState)
	}
	var out State
	r := reader{buf: b[1:]}
	for len(r.buf) > 0 && !r.bad {
		head := r.take(3)
		if r.bad {
			break
		}
		part := reader{buf: r.take(uint64(binary.BigEndian.Uint16(head[1:])))}
		if out.readSection(head[0], &part); part.bad {
			return fmt.Errorf("read section %d: %w", head[0], ErrState)
		}
	}
	if r.bad || !out.bounded() {
		return fmt.Errorf("read %d bytes: %w", len(b), ErrState)
	}
	*s = out
	return nil
}

// bounded reports whether s is within the bounds that hold for every State.
func (s *State) bounded() bool {
	return len(s.items) <= 2*maxRemember && len(s.heads) <= maxHeads && len(s.heard) <= maxHeard &&
		len(s.streaks) <= maxStreaks && len(s.tools) <= maxTools && len(s.standing) <= maxDetections
}

func (s *State) readSection(tag byte, r *reader) {
	switch tag {
	case tagCounts:
		s.readCounts(r)
	case tagItem:
		s.items = append(s.items, readPast(r))
	case tagLoose:
		s.readLoose(r.keys())
	case tagHeads:
		s.heads = r.keys()
	case tagHeard:
		s.heard = r.keys()
	case tagStreak:
		s.streaks = append(s.streaks, readStreak(r))
	case tagTool:
		s.tools = append(s.tools, readTool(r))
	case tagEmpty:
		if n := len(s.tools); n > 0 {
			s.tools[n-1].nothing = r.key()
			r.numbers(&s.tools[n-1].empties)
		}
	case tagDetection:
		s.standing = append(s.standing, readDetection(r))
	}
}

func (s *State) write(w *writer) {
	w.signed(s.seen.UnixMilli())
	w.numbers(s.round, s.work, s.calls, s.failed, s.wide, s.total, s.unique, s.blocked, s.most, s.mostTool)
	w.bools(s.broken, s.stopped, s.doubt&1 != 0, s.doubt&2 != 0)
}

func (s *State) readCounts(r *reader) {
	s.seen = time.UnixMilli(r.signed()).UTC()
	r.numbers(&s.round, &s.work, &s.calls, &s.failed, &s.wide, &s.total, &s.unique, &s.blocked, &s.most, &s.mostTool)
	var one, two bool
	r.bools(&s.broken, &s.stopped, &one, &two)
	if one {
		s.doubt = 1
	}
	if two {
		s.doubt |= 2
	}
}

func (it *past) write(w *writer) {
	w.key(it.key)
	w.key(it.chain)
	w.key(it.id)
	w.bools(it.human, it.reset, it.live, it.released)
	for i := range it.calls {
		c := &it.calls[i]
		w.key(c.key)
		w.key(c.result)
		w.key(c.class)
		w.numbers(c.tool, uint32(c.times), uint32(c.flags))
	}
}

func readPast(r *reader) past {
	it := past{key: r.key(), chain: r.key(), id: r.key()}
	r.bools(&it.human, &it.reset, &it.live, &it.released)
	for len(r.buf) > 0 && !r.bad && len(it.calls) < maxParallel {
		c := pastCall{key: r.key(), result: r.key(), class: r.key()}
		var times, set uint32
		r.numbers(&c.tool, &times, &set)
		c.times, c.flags = uint16(min(times, 1<<16-1)), flags(set&0xffff) //nolint:gosec // both fit now
		it.calls = append(it.calls, c)
	}
	if it.live && len(it.calls) != 1 || it.human && len(it.calls) > 0 {
		r.bad = true
	}
	return it
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

// readLoose gives the newest item that was read its calls' loose keys.
func (s *State) readLoose(keys []uint64) {
	if len(s.items) == 0 {
		return
	}
	calls := s.items[len(s.items)-1].calls
	for i := range calls[:min(len(calls), len(keys))] {
		calls[i].loose = keys[i]
	}
}

func (e *streak) write(w *writer) {
	w.key(e.key)
	w.key(e.result)
	w.numbers(e.tool, e.pure, e.count, e.done, e.occurred, e.warned, e.round, e.work)
	w.bools(e.known)
}

func readStreak(r *reader) streak {
	e := streak{key: r.key(), result: r.key()}
	r.numbers(&e.tool, &e.pure, &e.count, &e.done, &e.occurred, &e.warned, &e.round, &e.work)
	r.bools(&e.known)
	return e
}

func (t *tool) write(w *writer) {
	w.text(t.name)
	w.key(t.class)
	w.numbers(t.hash, t.round, t.unknown, t.errors)
	w.keys(t.args)
}

// emptyRun is the part of a tool's counts that tells of empty results.
type emptyRun struct{ *tool }

func (t emptyRun) write(w *writer) {
	w.key(t.nothing)
	w.numbers(t.empties)
}

func readTool(r *reader) tool {
	t := tool{name: r.text(maxToolName), class: r.key()}
	r.numbers(&t.hash, &t.round, &t.unknown, &t.errors)
	if t.args = r.keys(); len(t.args) > maxErrorArgs {
		r.bad = true
	}
	return t
}

func (f *Detection) write(w *writer) {
	w.text(string(f.Rule))
	w.text(f.Tool)
	w.key(f.call)
	w.numbers(uint32(f.Level), f.mark)
	for _, n := range []int{f.Count, f.Threshold, f.Period, f.Backoff} {
		w.signed(int64(n))
	}
	w.bools(f.Poll, f.Worked, f.Similar)
}

func readDetection(r *reader) Detection {
	f := Detection{Rule: Rule(r.text(maxToolName)), Tool: r.text((maxToolName + 1) * maxNamed), call: r.key()}
	var level uint32
	r.numbers(&level, &f.mark)
	f.Level = Level(min(level, uint32(Break))) //nolint:gosec // at most Break
	for _, n := range []*int{&f.Count, &f.Threshold, &f.Period, &f.Backoff} {
		*n = int(r.signed())
	}
	r.bools(&f.Poll, &f.Worked, &f.Similar)
	return f
}

// writer appends the elements of a stored state to buf.
type writer struct{ buf []byte }

// section appends a tag, the length of what v writes in two bytes, and that. No
// part of a State within its bounds is longer.
func section[T interface{ write(w *writer) }](w *writer, tag byte, v T) {
	w.buf = append(w.buf, tag, 0, 0)
	start := len(w.buf)
	v.write(w)
	binary.BigEndian.PutUint16(w.buf[start-2:], uint16(len(w.buf)-start)) //nolint:gosec // see above
}

// keyList is a list of keys that is a section.
type keyList []uint64

func (l *keyList) write(w *writer) { w.keys(*l) }

func (w *writer) key(k uint64)    { w.buf = binary.BigEndian.AppendUint64(w.buf, k) }
func (w *writer) signed(n int64)  { w.buf = binary.AppendVarint(w.buf, n) }
func (w *writer) number(n uint64) { w.buf = binary.AppendUvarint(w.buf, n) }
func (w *writer) text(s string)   { w.number(uint64(len(s))); w.buf = append(w.buf, s...) }
func (w *writer) numbers(n ...uint32) {
	for _, v := range n {
		w.number(uint64(v))
	}
}

func (w *writer) keys(list []uint64) {
	w.number(uint64(len(list)))
	for _, k := range list {
		w.key(k)
	}
}

// bools writes up to eight flags as one byte.
func (w *writer) bools(list ...bool) {
	var b byte
	for i, v := range list {
		if v {
			b |= 1 << i
		}
	}
	w.buf = append(w.buf, b)
}

// reader takes the elements of a stored state from buf. Once bad, it returns
// zeros.
type reader struct {
	buf []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.buf)) {
		r.bad, r.buf = true, nil
		return nil
	}
	out := r.buf[:n]
	r.buf = r.buf[n:]
	return out
}

func (r *reader) key() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.buf)
	if r.take(uint64(max(size, 0))); size <= 0 { //nolint:gosec // not negative
		r.bad = true
		return 0
	}
	return n
}

func (r *reader) signed() int64 {
	n, size := binary.Varint(r.buf)
	if r.take(uint64(max(size, 0))); size <= 0 { //nolint:gosec // not negative
		r.bad = true
		return 0
	}
	return n
}

func (r *reader) text(most uint64) string {
	n := r.number()
	if n > most {
		r.bad = true
		return ""
	}
	return string(r.take(n))
}

func (r *reader) numbers(out ...*uint32) {
	for _, p := range out {
		n := r.number()
		if n > 1<<32-1 {
			r.bad = true
			return
		}
		*p = uint32(n)
	}
}

func (r *reader) keys() []uint64 {
	n := r.number()
	if n > uint64(len(r.buf))/8 {
		r.bad = true
		return nil
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = r.key()
	}
	return out
}

func (r *reader) bools(out ...*bool) {
	if b := r.take(1); len(b) == 1 {
		for i, p := range out {
			*p = b[0]&(1<<i) != 0
		}
	}
}
