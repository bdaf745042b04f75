package repair

// Item is one element of a flat history, in which calls and their results stand beside
// messages.
type Item struct {
	// Kind is the type of the item.
	Kind string
	// ID is the id of a call; a result has that of its call.
	ID           string
	Call, Result bool
	// Answer is the content of a result, as JSON.
	Answer []byte
	// Raw is the JSON of the item.
	Raw []byte

	dropped bool
	result  *Item // of a call
}

// Flat returns the JSON of the items of a history with exactly one result for each
// call, and a report of the changes. Calls and results need not take turns, so nothing
// is moved. partial says that calls may be missing from the history: results without a
// call then stay. lost makes the result for a call without one.
func Flat(items []Item, partial bool, lost func(call *Item) []byte) (raw [][]byte, report Report) {
	calls := map[string]*Item{}
	for i := range items {
		it := &items[i]
		call, known := calls[it.ID]
		switch {
		case it.Call:
			calls[it.ID] = it
		case it.Result && known:
			report.Duplicates += call.take(it)
		case it.Result && !partial:
			it.dropped = true
			report.Orphans++
		}
	}
	var made [][]byte // results that follow the parallel calls that they belong to
	for i := range items {
		it := &items[i]
		if !it.dropped {
			raw = append(raw, it.Raw)
		}
		if it.Call && it.result == nil {
			made = append(made, lost(it))
		}
		if i+1 == len(items) || !items[i+1].Call {
			raw = append(raw, made...)
			report.Synthetic += len(made)
			made = nil
		}
	}
	return raw, report
}

// take gives a call one more result and returns how many it has too many. It keeps the
// first result, but a final one replaces one that is pending.
func (call *Item) take(result *Item) (surplus int) {
	if call.result == nil {
		call.result = result
		return 0
	}
	first := call.result
	if Pending(first.Answer) && !Pending(result.Answer) {
		first.dropped, call.result = true, result
	} else {
		result.dropped = true
	}
	return 1
}
