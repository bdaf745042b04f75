package tree

import (
	"slices"

	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
)

// Format is how a wire format writes messages.
type Format struct {
	repair.Rules
	// Content is the name of the member that holds a message's blocks. Without
	// Rules.Joined it holds those that are not calls.
	Content string
	// Lost returns the result for a call that has none: a block, or a message without
	// Rules.Joined.
	Lost func(id string) []byte
}

// Repair returns the body with its history repaired, and a report of the changes. A body
// that needs no repair is returned as it is.
func (t *Tree) Repair(f *Format) ([]byte, repair.Report, error) {
	if t.Fault != nil || !t.List.Found() {
		return t.Body, repair.Report{}, t.Fault
	}
	turns, report := repair.Mend(t.Messages, f.Rules)
	if !report.Changed() {
		return t.Body, report, nil
	}
	var list [][]byte
	for i := range turns {
		list = append(list, t.turn(&turns[i], f))
		for _, result := range turns[i].Results {
			if result.Raw == nil {
				result.Raw = f.Lost(result.ID)
			}
			list = append(list, result.Raw)
		}
	}
	return splice.Replace(t.Body, t.List, splice.Array(list...)), report, nil
}

// turn writes a message of a repaired history.
func (t *Tree) turn(turn *repair.Turn, f *Format) []byte {
	if turn.Source < 0 {
		return slices.Concat([]byte(`{"role":"user","`+f.Content+`":`), f.content(turn.Blocks), []byte{'}'})
	}
	at := t.spans[turn.Source]
	raw := t.Raw(at.message)
	switch {
	case turn.Whole:
		return raw
	case !at.content.Found():
		return splice.AddMember(raw, splice.Place{To: len(raw)}, f.Content, f.content(turn.Blocks))
	default:
		from := at.message.From
		return splice.Replace(raw, splice.Place{From: at.content.From - from, To: at.content.To - from}, f.content(turn.Blocks))
	}
}

// content writes blocks as the content of a message.
func (f *Format) content(blocks []repair.Block) []byte {
	if f.Joined {
		return repair.WriteContent(blocks, f.Lost)
	}
	blocks = slices.DeleteFunc(slices.Clone(blocks), func(b repair.Block) bool { return b.Kind == repair.Call })
	if len(blocks) == 0 {
		return []byte("null")
	}
	return repair.WriteContent(blocks, nil)
}
