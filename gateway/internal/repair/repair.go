// Package repair mends histories of tool calls that providers would refuse: after a
// crash, a cancelled run or a careless compaction, calls have no results, results
// have no calls, and roles no longer take turns.
//
// It works on a small model of messages and blocks that the wire formats fill and
// write; what it does not change is written as it came. It knows no policies.
package repair

// Lost is the result of a call whose result is not there.
const Lost = "[Tool execution was interrupted or lost]"

// Role is who speaks.
type Role uint8

// The roles. A message of another role stays as and where it is.
const (
	User Role = iota
	Assistant
	Other
)

// Kind is what a block is.
type Kind uint8

// The kinds. Content is whatever is neither text nor of a tool.
const (
	Text Kind = iota
	Content
	Call
	Result
)

// Block is one block of a message.
type Block struct {
	Kind Kind
	// ID is that of the call, also in results.
	ID string
	// Bare says that the block is the whole content: Raw is a string.
	Bare bool
	// Blank says that a text is white space alone.
	Blank bool
	// Pending says that a result is not final.
	Pending bool
	// Raw is the block as it came, or the whole message where that holds one result;
	// nil for a result that was made here.
	Raw []byte

	message, place int // where it came from
	moved          bool
}

// Message is one message of a history. Results are blocks of a message of the
// user's.
type Message struct {
	Role   Role
	Blocks []Block
	// Sealed says that the message has members beside role and content, and can't be
	// merged with others.
	Sealed bool
}

// Turn is one message of a mended history.
type Turn struct {
	Role   Role
	Blocks []Block
	// Results are those of the calls in Blocks; they follow the message.
	Results []Block
	// Sources are the indexes of the messages that Blocks come from.
	Sources []int
}

// Whole says whether the turn's blocks are all those of the one message that it
// comes from.
func (t *Turn) Whole(messages []Message) bool {
	return len(t.Sources) == 1 && len(t.Blocks) == len(messages[t.Sources[0]].Blocks)
}

// Mend returns the history with each call followed by its one result, and what had
// to be done for it.
func Mend(messages []Message) ([]Turn, Report) {
	m := mender{messages: messages, byID: map[string][]*owner{}, calls: make([][]*owner, len(messages))}
	m.match()
	return m.merge(m.humanFirst(m.turns())), m.report
}

// owner is a call and its result.
type owner struct {
	message int
	id      string
	result  *Block
}

type mender struct {
	messages []Message
	report   Report
	byID     map[string][]*owner
	calls    [][]*owner // by message
	// last is the message with calls whose results may stand where the walk is, or
	// -1.
	last int
}

// match gives each result to its call, in the order of the history.
func (m *mender) match() {
	m.last = -1
	for i := range m.messages {
		msg := &m.messages[i]
		if msg.Role == Other {
			m.last = -1
			continue
		}
		for p := range msg.Blocks {
			b := &msg.Blocks[p]
			b.message, b.place = i, p
			if b.Kind == Call && msg.Role == Assistant {
				o := &owner{message: i, id: b.ID}
				m.calls[i] = append(m.calls[i], o)
				m.byID[b.ID] = append(m.byID[b.ID], o)
			}
		}
		m.results(i, msg)
	}
}

// results looks for the results in one message and keeps m.last.
func (m *mender) results(i int, msg *Message) {
	if len(m.calls[i]) > 0 {
		m.last = i
	}
	for p := range msg.Blocks {
		b := &msg.Blocks[p]
		switch {
		case b.Kind == Result:
			m.assign(b, msg.Role == Assistant)
		case msg.Role == User && (b.Kind != Text || !b.Blank):
			m.last = -1
		}
	}
	if msg.Role == Assistant && len(m.calls[i]) == 0 && !msg.empty() {
		m.last = -1
	}
}

// assign gives a result to the newest call of its id, as far as there is one: the
// first result, or the first that is final.
func (m *mender) assign(b *Block, stuck bool) {
	o := m.owner(b.ID)
	if o == nil {
		m.report.Orphans++
		return
	}
	b.moved = stuck || o.message != m.last
	if o.result != nil {
		m.report.Duplicates++
		if o.result.Pending && !b.Pending {
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

// owner returns the call that the next result of an id belongs to: in the newest
// message with that id, the first call without a result, or else the first.
func (m *mender) owner(id string) *owner {
	list := m.byID[id]
	if len(list) == 0 {
		return nil
	}
	found := list[len(list)-1]
	for i := len(list) - 1; i >= 0 && list[i].message == list[len(list)-1].message; i-- {
		if list[i].result == nil || found.result != nil {
			found = list[i]
		}
	}
	return found
}

// turns puts the results behind their calls and drops empty messages.
func (m *mender) turns() []Turn {
	out := make([]Turn, 0, len(m.messages))
	for i := range m.messages {
		msg := &m.messages[i]
		if msg.Role != Other && msg.empty() {
			m.report.Empty++
			continue
		}
		t := Turn{Role: msg.Role, Sources: []int{i}}
		for _, b := range msg.Blocks {
			if b.Kind != Result {
				t.Blocks = append(t.Blocks, b)
			}
		}
		if n := len(t.Blocks); msg.Role != Other && n < len(msg.Blocks) && (&Message{Blocks: t.Blocks}).empty() {
			if n > 0 {
				m.report.Empty++
			}
			continue // it had results alone
		}
		t.Results = m.resultsOf(i)
		out = append(out, t)
	}
	return out
}

// empty says whether a message says nothing.
func (m *Message) empty() bool {
	for i := range m.Blocks {
		if b := &m.Blocks[i]; b.Kind != Text || !b.Blank {
			return false
		}
	}
	return !m.Sealed
}

// resultsOf returns the results of a message's calls: those in place in the order
// in which they came, then the others.
func (m *mender) resultsOf(i int) []Block {
	var placed, others []Block
	for _, o := range m.calls[i] {
		switch {
		case o.result == nil:
			m.report.Synthetic++
			others = append(others, Block{Kind: Result, ID: o.id, message: -1, moved: true})
		case o.result.moved:
			others = append(others, *o.result)
		default:
			placed = append(placed, *o.result)
		}
	}
	sortByPlace(placed)
	return append(placed, others...)
}

// humanFirst drops what stands before the first message of a human, where there
// is one.
func (m *mender) humanFirst(turns []Turn) []Turn {
	human := 0
	for human < len(turns) && turns[human].Role != User {
		human++
	}
	if human == len(turns) {
		return turns
	}
	out := turns[:0]
	for i := range turns {
		if i < human && turns[i].Role == Assistant {
			m.report.Leading++
			continue
		}
		out = append(out, turns[i])
	}
	return out
}

// merge joins neighbours of one role. Between a call and what follows stands its
// result, so that messages with calls are only joined to text before them.
func (m *mender) merge(turns []Turn) []Turn {
	out := turns[:0]
	for _, t := range turns {
		if len(out) > 0 && m.joins(&out[len(out)-1], &t) {
			last := &out[len(out)-1]
			last.Blocks = append(last.Blocks, t.Blocks...)
			last.Results = t.Results
			last.Sources = append(last.Sources, t.Sources...)
			m.report.Merged++
			continue
		}
		out = append(out, t)
	}
	return out
}

func (m *mender) joins(a, b *Turn) bool {
	return a.Role == b.Role && a.Role != Other && len(a.Results) == 0 && !m.sealed(a) && !m.sealed(b)
}

// sealed says whether a turn can't be merged. Only one of a single message can be
// so.
func (m *mender) sealed(t *Turn) bool {
	return len(t.Sources) == 1 && m.messages[t.Sources[0]].Sealed
}
