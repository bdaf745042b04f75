package gateway

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/unloop/unloop/schemas/checkpb"
)

// writesAtOnce bounds the concurrent writes about one answer.
const writesAtOnce = 16

// name notes the id of a call's item. Clients that send functions' calls in full may
// refer to those of the provider's kinds all the same.
func (a *answerWatch) name(item string, call *checkpb.ToolCall) {
	if item == "" || !call.GetProvided() && !a.asker.GetReferable() {
		return
	}
	if a.items == nil {
		a.items = map[string]string{}
	}
	a.items[string(call.GetId())] = item
}

// putItems remembers the answer's calls by the ids of their items.
func (a *answerWatch) putItems() {
	var group errgroup.Group
	group.SetLimit(writesAtOnce)
	for _, call := range a.calls {
		item := a.items[string(call.GetId())]
		if item == "" {
			continue
		}
		group.Go(func() error {
			a.remember(func(ctx context.Context) error {
				return a.g.answers.PutCalls(ctx, a.asker.GetCaller(), item, []*checkpb.ToolCall{call})
			})
			return nil
		})
	}
	_ = group.Wait() // remember counts what was lost
}
