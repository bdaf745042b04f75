package toolloop

import (
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/schemas/fingerprint"
)

// Bounds on a session's state, beside Params.Remember rounds. The oldest entries are
// removed.
const (
	maxHeads     = 8   // conversations told apart within one session
	maxHeard     = 32  // human messages
	maxStreaks   = 256 // distinct calls counted at a time
	maxTools     = 64  // distinct tools
	maxParallel  = 128 // distinct calls of one round
	maxToolName  = 128 // bytes of a tool's name
	maxErrorArgs = 4   // distinct arguments remembered with an error
	maxErrors    = 8   // distinct errors remembered of a run of failures
	maxOlder     = 256 // effects of rounds that are no longer remembered
)

// State is the record of one agent in one session. The zero State is that of a new
// session. A State is a value: no function here changes the one it is given.
type State struct {
	seen  time.Time // of the newest request
	items []past    // the newest rounds and the human messages between them
	older []uint32  // marks of what the turn's rounds before them brought
	heads []uint64  // chains at which histories ended, newest last
	heard []uint64  // keys of human messages, newest last

	streaks []streak
	tools   []tool
	round   uint32   // rounds counted so far
	work    uint32   // rounds so far that may have changed something
	changes uint32   // results so far that differed from the last one of their call
	calls   uint32   // calls since the last human message
	failed  uint32   // rounds in a row that failed
	stalled uint32   // of those, the ones whose errors had all been seen in them
	errors  []uint64 // errors of those rounds
	asked   int64    // when the newest human message came, as past.at
	wide    uint32   // rounds in a row that were part of a wide loop
	broken  bool     // nothing passes until a human message or a release
	stopped bool     // the newest request was blocked
	// doubt is the number of requests that must still continue each other, after histories
	// diverged, before a summary is taken for one of the remembered rounds: at most 3.
	doubt uint8

	standing []Detection // of the newest evaluation
	total    uint32      // calls, ever
	unique   uint32      // distinct ones, as far as they were remembered
	blocked  uint32      // rounds that were blocked or broken off
	most     uint32      // occurrences of the call that was made most often
	mostTool uint32
}

// past is a remembered item.
type past struct {
	key, chain, id uint64
	human          bool // a message
	reset          bool // it begins a new turn
	closed         bool // a round that is an answer with the message behind it, or a message behind an answer
	released       bool // an operator ended the turn after it
	live           bool // known from a check, and not yet from a history
	// at is when a request showed the item as its newest round or as a message behind it,
	// in milliseconds of Unix time; 0 if that is not known.
	at    int64
	calls []pastCall
}

// pastCall is a distinct call of a remembered round.
type pastCall struct {
	key, result, class uint64
	loose              uint64 // Call.Loose
	tool               uint32
	times              uint16 // how often the round has it
	flags              flags
}

type flags uint16

const (
	known flags = 1 << iota // the result
	failed
	poll
	readOnly
	exempt
	notOffered
	novel    // it was in no streak when it was made
	answered // a result was reported for it, whether or not results are looked at
	soft
	empty
	wait
	once
	plain
	waited // the call was made before and follows a wait: both are one poll
	look
	retold
)

func (c *pastCall) is(f flags) bool { return c.flags&f != 0 }

// streak counts one call since the last human message.
type streak struct {
	key, result uint64
	tool        uint32
	known       bool
	pure        uint32 // occurrences with one result and no work in between
	count       uint32 // occurrences with one result
	done        uint32 // of pure, those whose result is known
	occurred    uint32 // occurrences
	warned      uint32 // warnings given
	round       uint32 // State.round of the newest occurrence
	work        uint32 // State.work after the newest occurrence
	rate        rate   // of pure
	steady      uint32 // of count, those since the last change of another call's result, or all if the call fails
	changes     uint32 // State.changes after the newest occurrence
	edits       uint32 // occurrences without other work in between, whatever they brought, of a call with flag once
}

// tool has the counts of one tool.
type tool struct {
	hash    uint32
	name    string
	round   uint32
	unknown uint32   // calls although it was not offered
	class   uint64   // its newest error
	errors  uint32   // failures with that error since it last succeeded
	stale   uint32   // of those, the ones that told nothing new
	work    uint32   // State.work at the newest of them
	told    []uint64 // the newest of their distinct results
	args    []uint64 // some of the calls that failed so
	nothing uint64   // its newest empty result
	empties uint32   // rounds in a row in which it brought that and nothing else
}

// clone returns a copy that shares nothing that is written to.
func (s State) clone() State {
	s.items = slices.Clone(s.items)
	n := 0
	for i := range s.items {
		n += len(s.items[i].calls)
	}
	calls := make([]pastCall, 0, n)
	for i := range s.items {
		it, from := &s.items[i], len(calls)
		calls = append(calls, it.calls...)
		it.calls = calls[from:len(calls):len(calls)]
	}
	s.heads, s.heard, s.older = slices.Clone(s.heads), slices.Clone(s.heard), slices.Clone(s.older)
	s.streaks, s.tools = slices.Clone(s.streaks), slices.Clone(s.tools)
	for i := range s.tools {
		s.tools[i].args, s.tools[i].told = slices.Clone(s.tools[i].args), slices.Clone(s.tools[i].told)
	}
	s.standing, s.errors = slices.Clone(s.standing), slices.Clone(s.errors)
	return s
}

// IsZero reports whether nothing is known of the session.
func (s *State) IsZero() bool { return s.seen.IsZero() }

// newTurn ends all counts, as a human message does. The remembered rounds stay, for
// matching.
func (s *State) newTurn() {
	s.streaks, s.standing, s.errors, s.older = nil, nil, nil, nil
	for i := range s.tools {
		s.tools[i] = tool{hash: s.tools[i].hash, name: s.tools[i].name, round: s.tools[i].round}
	}
	s.calls, s.failed, s.stalled, s.wide, s.broken, s.stopped = 0, 0, 0, 0, false, false
}

// turn returns the remembered rounds since the last human message, oldest first,
// as indexes into s.items.
func (s *State) turn() []int {
	var out []int
	for i := range s.items {
		it := &s.items[i]
		if it.reset {
			out = out[:0]
		}
		if !it.human {
			out = append(out, i)
		}
		if it.released {
			out = out[:0]
		}
	}
	return out
}

// push remembers an item and removes the items that are too old.
func (s *State) push(it past, remember int) {
	s.items = append(s.items, it)
	rounds := 0
	for i, it := range slices.Backward(s.items) {
		if !it.human {
			rounds++
		}
		if rounds > remember || len(s.items)-i > 2*remember {
			s.retire(i + 1)
			return
		}
	}
}

// retire removes the n oldest items. It keeps the marks of those in the turn.
func (s *State) retire(n int) {
	for i := range s.items[:n] {
		if slices.ContainsFunc(s.items[i:], func(it past) bool { return it.reset && !it.human || it.released }) ||
			slices.ContainsFunc(s.items[i+1:], func(it past) bool { return it.reset }) {
			continue
		}
		for _, c := range s.items[i].calls {
			if mark := (pair{c.key, c.result}).mark(); c.is(known|failed) && !slices.Contains(s.older, mark) {
				s.older = append(s.older, mark)
			}
		}
	}
	s.older = slices.Delete(s.older, 0, max(0, len(s.older)-maxOlder))
	s.items = slices.Delete(s.items, 0, n)
}

func (s *State) streakOf(key uint64) *streak {
	for i := range s.streaks {
		if s.streaks[i].key == key {
			return &s.streaks[i]
		}
	}
	return nil
}

// newStreak returns a new streak for a call. It removes the one with the oldest
// occurrence if there are too many.
func (s *State) newStreak(c *pastCall) *streak {
	if len(s.streaks) >= maxStreaks {
		oldest := 0
		for i := range s.streaks {
			if s.streaks[i].round < s.streaks[oldest].round {
				oldest = i
			}
		}
		s.streaks = slices.Delete(s.streaks, oldest, oldest+1)
	}
	s.streaks = append(s.streaks, streak{key: c.key, tool: c.tool})
	return &s.streaks[len(s.streaks)-1]
}

// expire removes the streaks of calls that were last made before the remembered rounds.
func (s *State) expire(remember int) {
	s.streaks = slices.DeleteFunc(s.streaks, func(e streak) bool { return int(s.round-e.round) > remember })
}

// toolNamed returns the counts of a tool, which it creates if there are none.
func (s *State) toolNamed(name string) *tool {
	name = name[:min(len(name), maxToolName)]
	hash := uint32(fingerprint.String([]byte(name)).Key()) //nolint:gosec // any 32 bits of it do
	if t := s.toolOf(hash); t != nil {
		t.round = s.round
		return t
	}
	if len(s.tools) >= maxTools {
		oldest := 0
		for i := range s.tools {
			if s.tools[i].round < s.tools[oldest].round {
				oldest = i
			}
		}
		s.tools = slices.Delete(s.tools, oldest, oldest+1)
	}
	s.tools = append(s.tools, tool{hash: hash, name: strings.Clone(name), round: s.round}) // it may be part of a request's body
	return &s.tools[len(s.tools)-1]
}

func (s *State) toolOf(hash uint32) *tool {
	for i := range s.tools {
		if s.tools[i].hash == hash {
			return &s.tools[i]
		}
	}
	return nil
}

func (s *State) toolName(hash uint32) string {
	if t := s.toolOf(hash); t != nil {
		return t.name
	}
	return ""
}

// hear remembers a human message by its key, and reports whether it is new.
func (s *State) hear(key uint64) bool {
	if slices.Contains(s.heard, key) {
		return false
	}
	s.heard = lastN(append(s.heard, key), maxHeard)
	return true
}

func lastN(list []uint64, n int) []uint64 { return slices.Delete(list, 0, max(0, len(list)-n)) }
