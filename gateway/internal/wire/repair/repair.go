// Package repair corrects histories of tool calls that providers would refuse. After a
// crash, a cancelled run or a careless compaction, calls have no results, and results
// have no calls. A history that its provider accepts is not changed.
//
// It works on a small model of messages and blocks, which package tree fills and writes. The rest
// of the body stays as it came. The package knows no wire format and no policy.
package repair

import (
	"cmp"
	"slices"
)

// Lost is the text of a result that is made for a call without one.
const Lost = "[Tool execution was interrupted or lost]"

// Role is the author of a message.
type Role uint8

// The roles. A message of another role stays as and where it is.
const (
	User Role = iota
	Assistant
	Other
)

// Kind is the kind of a block.
type Kind uint8

// The kinds. Content is everything that is neither a text nor a call or result.
const (
	Text Kind = iota
	Content
	Call
	Result
)

// Block is one block of a message.
type Block struct {
	Kind Kind
	// ID is the id of a call; a result has that of its call.
	ID string
	// Bare marks a string that is the whole content of its message.
	Bare bool
	// Blank marks a text that is white space alone.
	Blank bool
	// Answer is the content of a result, as JSON.
	Answer []byte
	// Raw is the JSON of the block, or of the whole message if that holds one result;
	// nil for a result that is made here.
	Raw []byte

	message, place int  // the index of its message, and its own in that
	moved          bool // a result that does not stand behind its call
	kept           bool // a result that was assigned to its call
}

// Message is one message of a history. Results are blocks of a user's message.
type Message struct {
	Role   Role
	Blocks []Block
	// Sealed marks a message with further members, which is not empty without blocks.
	Sealed bool
}

// Rules describe the histories that a provider refuses.
type Rules struct {
	// Joined says that the provider reads neighbours of one role as one message, and
	// that results are blocks at the beginning of a user's message. Otherwise each
	// message with calls must be followed by its results, which are messages.
	Joined bool
	// Blank says that texts of white space alone are refused.
	Blank bool
}

// Turn is one message of a repaired history.
type Turn struct {
	Role   Role
	Blocks []Block
	// Results are the results of the calls in Blocks, which follow the message. With
	// Rules.Joined they are among the Blocks of a user's turn instead.
	Results []Block
	// Source is the index of the turn's message, and -1 for a turn that is made here.
	Source int
	// Whole says that the turn has all blocks of its message, and no others.
	Whole bool
}

// Mend returns the history with each call followed by exactly one result, and a report
// of the changes. It returns no change if no message would be left.
func Mend(messages []Message, rules Rules) ([]Turn, Report) {
	m := mender{rules: rules, messages: messages, byID: map[string][]*owner{}, calls: make([][]*owner, len(messages))}
	m.match()
	turns := m.turns()
	if rules.Joined {
		turns = m.place(turns)
	}
	if len(turns) == 0 {
		return nil, Report{}
	}
	return turns, m.report
}

// owner is a call with its result.
type owner struct {
	message int
	// turn is the index of the first of the messages that the provider reads as one.
	turn   int
	id     string
	result *Block
}

type mender struct {
	rules    Rules
	messages []Message
	report   Report
	byID     map[string][]*owner
	calls    [][]*owner // by message
	// last is the turn that results at the current message belong to, or -1.
	last int
}

// match assigns each result to its call, in the order of the history.
func (m *mender) match() {
	m.last = -1
	turn := 0
	for i := range m.messages {
		msg := &m.messages[i]
		if i > 0 && (!m.rules.Joined || msg.Role != m.messages[i-1].Role) {
			turn = i
		}
		for p := range msg.Blocks {
			b := &msg.Blocks[p]
			b.message, b.place = i, p
			if b.Kind == Call && msg.Role == Assistant {
				o := &owner{message: i, turn: turn, id: b.ID}
				m.calls[i] = append(m.calls[i], o)
				m.byID[b.ID] = append(m.byID[b.ID], o)
			}
		}
		m.results(i, turn)
	}
	for _, owners := range m.calls {
		for _, o := range owners {
			if o.result != nil {
				o.result.kept = true
			}
		}
	}
}

// results assigns the results in the i-th message, which belongs to a turn, and updates
// m.last.
func (m *mender) results(i, turn int) {
	msg := &m.messages[i]
	switch {
	case msg.Role == Other:
		m.last = -1
		return
	case msg.Role == Assistant && m.rules.Joined, len(m.calls[i]) > 0:
		m.last = turn
	}
	for p := range msg.Blocks {
		b := &msg.Blocks[p]
		switch {
		case b.Kind == Result:
			m.assign(b, msg.Role == Assistant)
		case msg.Role == User && !m.blank(b):
			m.last = -1
		}
	}
	if msg.Role == Assistant && !m.rules.Joined && len(m.calls[i]) == 0 && !m.empty(msg) {
		m.last = -1
	}
}

// assign assigns a result to the newest call of its id. A call keeps its first result,
// but a final one replaces one that is pending.
func (m *mender) assign(b *Block, stuck bool) {
	o := m.owner(b.ID)
	if o == nil {
		m.report.Orphans++
		return
	}
	b.moved = stuck || o.turn != m.last
	if o.result != nil {
		m.report.Duplicates++
		if Pending(o.result.Answer) && !Pending(b.Answer) {
			o.result = b
		}
		return
	}
	o.result = b
	switch {
	case stuck:
		m.report.Rescued++
	case b.moved:
		m.report.Moved++
	}
}

// owner returns the call that the next result of an id belongs to: in the newest turn
// with that id the first call without a result, or else the first call.
func (m *mender) owner(id string) *owner {
	list := m.byID[id]
	if len(list) == 0 {
		return nil
	}
	found := list[len(list)-1]
	for i := len(list) - 1; i >= 0 && list[i].turn == list[len(list)-1].turn; i-- {
		if list[i].result == nil || found.result != nil {
			found = list[i]
		}
	}
	return found
}

// turns returns the messages without results that do not belong to them, and drops
// messages that are then empty.
func (m *mender) turns() []Turn {
	out := make([]Turn, 0, len(m.messages))
	for i := range m.messages {
		msg := &m.messages[i]
		if msg.Role == Other {
			out = append(out, Turn{Role: Other, Blocks: msg.Blocks, Source: i, Whole: true})
			continue
		}
		blocks := m.stay(msg)
		switch rest := (&Message{Blocks: blocks}); {
		case i < len(m.messages)-1 && m.empty(msg):
			m.report.Empty++
			continue
		case len(blocks) < len(msg.Blocks) && m.empty(rest):
			if len(blocks) > 0 {
				m.report.Empty++
			}
			continue // it had only results
		case !m.empty(rest):
			blocks = m.withoutBlank(blocks)
		}
		out = append(out, Turn{Role: msg.Role, Blocks: blocks, Source: i, Whole: len(blocks) == len(msg.Blocks), Results: m.resultsOf(i)})
	}
	return out
}

// stay returns the blocks that remain in their message.
func (m *mender) stay(msg *Message) (blocks []Block) {
	for _, b := range msg.Blocks {
		if b.Kind != Result || m.rules.Joined && b.kept && !b.moved {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// withoutBlank returns the blocks without the texts that the provider refuses.
func (m *mender) withoutBlank(blocks []Block) []Block {
	kept := slices.DeleteFunc(slices.Clone(blocks), func(b Block) bool { return m.blank(&b) })
	m.report.Empty += len(blocks) - len(kept)
	return kept
}

// blank reports whether a block is a text that the provider refuses.
func (m *mender) blank(b *Block) bool { return m.rules.Blank && b.Kind == Text && b.Blank }

// empty reports whether a message has no content.
func (m *mender) empty(msg *Message) bool {
	for i := range msg.Blocks {
		if !m.blank(&msg.Blocks[i]) {
			return false
		}
	}
	return !msg.Sealed
}

// resultsOf returns the results of a message's calls that must be put behind it: those
// that stood there in their order, then the others.
func (m *mender) resultsOf(i int) []Block {
	var placed, others []Block
	for _, o := range m.calls[i] {
		switch {
		case o.result == nil:
			m.report.Synthetic++
			others = append(others, Block{Kind: Result, ID: o.id, message: -1, moved: true})
		case o.result.moved:
			others = append(others, *o.result)
		case !m.rules.Joined:
			placed = append(placed, *o.result)
		}
	}
	slices.SortStableFunc(placed, func(a, b Block) int {
		return cmp.Or(a.message-b.message, a.place-b.place)
	})
	return append(placed, others...)
}

// place moves the Results of each turn into the user's turn behind it: behind the
// results that stand there, or to its beginning.
func (m *mender) place(turns []Turn) []Turn {
	out := make([]Turn, 0, len(turns))
	var open []Block
	awaited := false // some results stand behind the model's neighbouring turns
	for i := range turns {
		t := turns[i]
		open = append(open, t.Results...)
		t.Results = nil
		out = append(out, t)
		awaited = t.Role == Assistant && (awaited || m.answered(t.Source))
		switch next := i + 1; {
		case len(open) == 0 || awaited && next < len(turns) && turns[next].Role == Assistant:
			continue
		case next < len(turns) && turns[next].Role == User:
			m.putResults(turns[next:], open)
		default:
			out = append(out, Turn{Role: User, Blocks: open, Source: -1})
			awaited = false
		}
		open = nil
	}
	return out
}

// answered reports whether a call of the i-th message has a result after it.
func (m *mender) answered(i int) bool {
	return slices.ContainsFunc(m.calls[i], func(o *owner) bool { return o.result != nil && !o.result.moved })
}

// putResults inserts results into the user's neighbouring turns: behind the results at
// their beginning.
func (m *mender) putResults(turns []Turn, results []Block) {
	into, at := 0, 0
	for i := 0; i < len(turns) && turns[i].Role == User; i++ {
		n := 0
		for n < len(turns[i].Blocks) && turns[i].Blocks[n].Kind == Result {
			n++
		}
		if n > 0 {
			into, at = i, n
		}
		if n < len(turns[i].Blocks) {
			break
		}
	}
	turns[into].Blocks = m.withoutBlank(slices.Insert(slices.Clone(turns[into].Blocks), at, results...))
	turns[into].Whole = false
}
