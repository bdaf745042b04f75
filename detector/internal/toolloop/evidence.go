package toolloop

import (
	"bytes"
	"slices"

	"github.com/unloop/unloop/schemas/fingerprint"
)

// Call is one tool call of a round.
type Call struct {
	Tool string             // its name, for thresholds by tool and for messages
	Key  fingerprint.Digest // fingerprint.Call
	// Result is fingerprint.Result of what the tool answered; zero while that is
	// not known.
	Result fingerprint.Digest
	// Class is fingerprint.ErrorClass of the result of a failed call.
	Class fingerprint.Digest
	// ID distinguishes this call from equal ones: a hash of its call id, and of whatever else
	// in the history is unique to it and stays, such as the words around it (but not the
	// result, which may come later or be cleared). It serves to match histories and is never
	// part of a count. Zero if there is nothing of the kind.
	ID         fingerprint.Digest
	Failed     bool // the result reports an error
	Poll       bool // fingerprint.IsPoll
	NotOffered bool // the request lists its tools, and this one is not among them
	Ours       bool // the result is a block or hint of ours, and so none
	// Loose is the key of the call without values that change by themselves and,
	// where it failed, without numbers; zero where the call has none of these.
	Loose fingerprint.Digest
	Soft  bool // a text that may be no action: it is stopped later, and only if it comes quickly
	Empty bool // the result says that nothing was found
	Wait  bool // the call lets time pass
	// Once says that the call changes something or gives a task to another agent: made
	// again, it repeats itself whatever it brings.
	Once  bool
	Plain bool // Class says all of the error
	// Look says that the call looks at something which others may change: made again
	// slowly, it is a poll.
	Look   bool
	Retold bool // each line of the result stands in an earlier result
}

// Item is one element of a history: a human message, or a round of calls. Other
// messages are left out.
type Item struct {
	// Human is the digest of a human message's text; zero for a round. A message with
	// tool results is not a human message.
	Human fingerprint.Digest
	// Summary marks a message that an agent wrote in place of older history. It has the
	// role of a human message, but no human wrote it.
	Summary bool
	// Closed says that the item ends a turn: the message follows an answer without a
	// call, or the round is such an answer with the message behind it.
	Closed bool
	// Calls are the round's calls, in any order.
	Calls []Call
}

// Evidence is the tool history of one request.
type Evidence struct {
	// Items is the history, oldest first: all of it, or its newest part.
	Items []Item
	// Before is the chain (fingerprint.Chain over fingerprint.RoundKey and
	// fingerprint.HumanKey) of the items before Items[0] that were left out, or,
	// with Delta, a digest of the name of what the server keeps. Else zero.
	Before fingerprint.Digest
	// Delta says that Items has only what is new since a response or conversation that the
	// server keeps (previous_response_id).
	Delta bool
	// Own says that the session has an id of its own. Its rounds still count after they have
	// left the history. Those of a derived session count only as long as histories continue
	// each other.
	Own bool
	// Retry says that the client marked the request as its own retry, or that the
	// request before got no answer.
	Retry bool
}

// history is Evidence with the keys for matching it.
type history struct {
	items  []Item
	keys   []uint64 // of each item
	chains []uint64 // up to and with each item
	ids    []uint64 // of each round; 0 for none
	pinned int      // human messages at the front, which clients keep when they cut
	newest int      // index of the newest round; 0 without one
}

func newHistory(ev *Evidence) *history {
	empty := func(it Item) bool { return !it.human() && len(it.Calls) == 0 }
	if slices.ContainsFunc(ev.Items, empty) {
		ev.Items = slices.DeleteFunc(slices.Clone(ev.Items), empty)
	}
	n := len(ev.Items)
	h := &history{items: ev.Items, keys: make([]uint64, n), chains: make([]uint64, n), ids: make([]uint64, n)}
	chain := ev.Before
	for i := range ev.Items {
		key := ev.Items[i].key()
		chain = fingerprint.Chain(chain, key)
		h.keys[i], h.chains[i], h.ids[i] = key.Key(), chain.Key(), ev.Items[i].id()
		if !ev.Items[i].human() {
			h.newest = i
		}
	}
	if ev.Before.IsZero() {
		for h.pinned < n && ev.Items[h.pinned].human() {
			h.pinned++
		}
	}
	return h
}

func (it *Item) human() bool { return !it.Human.IsZero() }

func (it *Item) key() fingerprint.Digest {
	switch {
	case it.human():
		return fingerprint.HumanKey(it.Human)
	case len(it.Calls) == 1:
		return fingerprint.RoundKey([]fingerprint.Digest{it.Calls[0].Key})
	}
	keys := make([]fingerprint.Digest, len(it.Calls))
	for i := range it.Calls {
		keys[i] = it.Calls[i].Key
	}
	return fingerprint.RoundKey(keys)
}

// id combines the ids of a round's calls. It is 0 when one of them has none.
func (it *Item) id() uint64 {
	switch len(it.Calls) {
	case 0:
		return 0
	case 1:
		return it.Calls[0].ID.Key()
	}
	ids := make([]fingerprint.Digest, len(it.Calls))
	for i := range it.Calls {
		if ids[i] = it.Calls[i].ID; ids[i].IsZero() {
			return 0
		}
	}
	slices.SortFunc(ids, func(a, b fingerprint.Digest) int { return bytes.Compare(a[:], b[:]) })
	var chain fingerprint.Digest
	for _, id := range ids {
		chain = fingerprint.Chain(chain, id)
	}
	return chain.Key()
}
