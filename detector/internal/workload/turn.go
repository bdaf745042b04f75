package workload

import (
	"slices"
	"time"

	"github.com/unloop/unloop/schemas/bounded"
)

const (
	// maxCallers bounds the number of lists. Each caller has two: its newest first requests,
	// and its newest later ones. maxTurns bounds the requests in one list, newest last.
	maxCallers = 8192
	maxTurns   = 128
)

// turnsKey names a caller's requests of one kind: the first ones of conversations, or later
// ones.
type turnsKey struct {
	policy, caller string
	session        [sessionEnd - askedEnd]byte
	later          bool
}

// turns are a caller's newest requests of one kind.
type turns struct {
	since time.Time // of the first of them
	list  []turn
}

// turn is a request. prompt is a part of its fingerprint.
type turn struct {
	prompt uint64
	begin  uint64 // Opening.begin
	length uint32 // Opening.messages
	// history and before are Opening's.
	history, before uint64

	at     time.Time
	hit    string // Check.hit
	sample bool
	wentOn bool // a later request has an answer to it
}

// turnMessages is the number of messages that a conversation's next request has more, at
// most: an answer, which may be in parts, and what follows it.
const turnMessages = 4

// patience is how long a model and a person may take until a conversation goes on.
const patience = 20 * time.Second

// follow marks the request that another one most likely goes on from: the newest of the
// longest that it may go on from and that are not marked yet.
func follow(list []turn, next *turn) {
	var before *turn
	for i := range list {
		t := &list[i]
		goesOn := t.begin == next.begin && t.prompt != next.prompt && t.length < next.length && next.length <= t.length+turnMessages
		if goesOn && !t.wentOn && (before == nil || t.length >= before.length) {
			before = t
		}
	}
	if before != nil {
		before.wentOn = true
	}
}

// add returns a caller's requests within a window and one more, the newest last. With keep it
// remembers the new one. A check that was sent twice is one request.
func (m *Memory) add(key turnsKey, own *turn, window time.Duration, keep bool) turns {
	before, known := m.turns[key]
	if !known {
		before.since = own.at
	}
	list := before.list
	if !keep {
		list = slices.Clone(list)
	}
	list = slices.DeleteFunc(list, func(t turn) bool {
		return own.at.Sub(t.at) >= window || own.hit != "" && t.hit == own.hit
	})
	after := turns{before.since, append(list[max(0, len(list)-maxTurns+1):], *own)}
	if keep {
		bounded.MakeRoom(m.turns, key, maxCallers)
		m.turns[key] = after
	}
	return after
}

// goOn reports whether the newest prompt belongs to conversations that go on: most requests
// with this prompt were followed by another one, and fewer than row were not. Up to 2*row
// requests from the last moments may still go on. An agent that repeats itself sends the same
// prompt with ever more messages: those are no parallel conversations.
func goOn(list []turn, row int) bool {
	newest, wentOn, ended, open := list[len(list)-1], 0, 0, 0
	for _, t := range list {
		if t.prompt != newest.prompt {
			continue
		}
		if t.length != newest.length {
			return false
		}
		young := newest.at.Sub(t.at) < patience
		wentOn, ended, open = wentOn+count(t.wentOn), ended+count(!t.wentOn && !t.sample && !young), open+count(!t.wentOn && !t.sample && young)
	}
	ended += max(0, open-2*row)
	return wentOn > 0 && wentOn >= ended && ended < row
}

// isApart reports whether the newest prompt, which follows a history, comes at least row times
// from several conversations, and fewer than row times from its own: visitors who all say
// thanks in the end. Conversations differ in the exchanges before the prompt. Without these it
// returns false.
func isApart(list []turn, row int) bool {
	newest := list[len(list)-1]
	if newest.history == 0 {
		return false
	}
	var own, all int
	at := newest
	for i := range slices.Backward(list) {
		t := &list[i]
		if before := at.before != 0 && t.history == at.before; before || t.history == at.history {
			at = *t
			own += count(t.prompt == newest.prompt && !t.sample)
		}
		all += count(t.prompt == newest.prompt && !t.sample)
	}
	return own < row && all >= row
}

// isUsual reports whether less than half of some first requests have the newest prompt, and
// fewer than row of them come in a row: the caller sends other things in between. It returns
// false for few requests, such as those that a detector knows after its start. shared says that
// the list has half of what the caller sends, and all that is equal.
func isUsual(list []turn, row int, shared bool) bool {
	prompt := list[len(list)-1].prompt
	equal, rounds, inRow := 0, 0, true
	for _, t := range slices.Backward(list) {
		if inRow = inRow && t.prompt == prompt; inRow {
			rounds += count(!t.sample)
		}
		equal += count(t.prompt == prompt)
	}
	others := len(list) - equal
	if shared {
		others *= 2
	}
	return equal < others && rounds < row && equal+others > 2*row
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
