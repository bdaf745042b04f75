package gemini

import (
	"fmt"

	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
)

// Repair corrects the history. Gemini refuses calls without as many responses in the
// content that follows, responses without calls, and contents without parts. It matches
// calls and responses by their ids if both have them, and else by the names of their
// functions.
func (Generate) Repair(body []byte) ([]byte, repair.Report, error) {
	t, err := locate(body)
	if err != nil {
		return body, repair.Report{}, fmt.Errorf("repair generateContent body: %w", err)
	}
	if t.continued { // a response in several pieces is not a duplicate
		return body, repair.Report{}, nil
	}
	t.pair()
	return t.Repair(&tree.Format{Rules: repair.Rules{Joined: true}, Content: "parts", Lost: t.lost})
}

// function is the name of a function, and the id of a call of it.
type function struct{ name, id string }

// function keeps the function of a block, and returns the block's ID until pair.
func (l *located) function(name, id string) (key string) {
	key = name + "\x00" + id
	l.functions[key] = function{name, id}
	return key
}

// pair identifies calls and responses by their ids if both have them, and else by
// their functions. A call keeps its id if all responses of its function have ids.
func (l *located) pair() {
	calls, both, byName := map[string]bool{}, map[string]bool{}, map[string]bool{}
	l.each(repair.Call, func(_ *repair.Block, f function) { calls[f.id] = f.id != "" })
	l.each(repair.Result, func(_ *repair.Block, f function) {
		if calls[f.id] {
			both[f.id] = true
		} else {
			byName[f.name] = true
		}
	})
	known := map[string]function{}
	name := func(b *repair.Block, f function) {
		if b.ID = "id " + f.id; !both[f.id] && (f.id == "" || byName[f.name]) {
			b.ID, f.id = "name "+f.name, ""
		}
		if _, twice := known[b.ID]; !twice { // calls come first
			known[b.ID] = f
		}
	}
	l.each(repair.Call, name)
	l.each(repair.Result, name)
	l.functions = known
}

// each calls f for each block of a kind.
func (l *located) each(kind repair.Kind, f func(*repair.Block, function)) {
	for i := range l.Messages {
		for p := range l.Messages[i].Blocks {
			if b := &l.Messages[i].Blocks[p]; b.Kind == kind {
				f(b, l.functions[b.ID])
			}
		}
	}
}

// lost returns the response to a call that has none.
func (l *located) lost(id string) []byte {
	f := l.functions[id]
	var ofID []byte
	if f.id != "" {
		ofID = fmt.Appendf(nil, `"id":%s,`, splice.Quote(f.id))
	}
	return fmt.Appendf(nil, `{"functionResponse":{%s"name":%s,"response":{"error":%s}}}`, ofID, splice.Quote(f.name), splice.Quote(repair.Lost))
}
