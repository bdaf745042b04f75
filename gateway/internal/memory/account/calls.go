package account

import (
	"bytes"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	// maxOpenCalls is the maximum number of calls that are stored of one answer, and
	// maxToolName the maximum length of their tools' names, which no provider exceeds.
	maxOpenCalls = 256
	maxToolName  = 128
	// writesAtOnce bounds the concurrent writes for one answer, and maxStores how often its
	// calls are stored: a stream may say any number of times that they are complete.
	writesAtOnce = 16
	maxStores    = 4
)

// watch stores what later requests need of one answer. It implements answers.Watcher.
type watch struct {
	*Deps
	kept  *provider.Kept
	asker *checkpb.AnswerAsker
	// session is the answer's; "" if it is already stored.
	session string
	// fetcher is the caller that fetches an answer in background mode; "" for others.
	fetcher string
	id      string
	calls   []*checkpb.ToolCall
	// stores is how often the calls were stored.
	stores int
	// items are the ids of the calls' items, by the id of the call.
	items map[string]string
	// failed is called if the answer is an error.
	failed func()
}

// Failed handles an error in the answer's place.
func (w *watch) Failed() { w.failed() }

// ID stores the answer's session and asker.
func (w *watch) ID(id string) {
	w.id = id
	if w.session != "" {
		w.store(func(ctx context.Context) error { return w.Store.Put(ctx, w.asker.GetCaller(), id, w.session) })
	}
	if w.fetcher != "" {
		w.store(func(ctx context.Context) error { return w.Store.PutAsker(ctx, w.fetcher, id, w.asker) })
	}
}

// Item takes a call. It replaces an earlier one with the same id, which is less complete.
func (w *watch) Item(json []byte) {
	call, item, ok := w.kept.Called(json)
	if !ok || len(call.Tool) > maxToolName {
		return
	}
	wire := evidence.WireCalls([]provider.ToolCall{call})[0]
	w.calls = slices.DeleteFunc(w.calls, func(c *checkpb.ToolCall) bool { return bytes.Equal(c.GetId(), wire.GetId()) })
	if len(w.calls) >= maxOpenCalls {
		return
	}
	w.calls = append(w.calls, wire)
	// Clients that send function calls as a whole may still refer to the provider's own kinds
	// of calls.
	if item != "" && (wire.GetProvided() || w.asker.GetReferable()) {
		if w.items == nil {
			w.items = map[string]string{}
		}
		w.items[string(wire.GetId())] = item
	}
}

// Whole stores the answer's calls: each by the id of its item, and all of them, with those
// that were open before, by the ids of the answer and of its conversation.
func (w *watch) Whole() {
	if w.stores++; w.stores > maxStores {
		return
	}
	var writes errgroup.Group
	writes.SetLimit(writesAtOnce)
	put := func(write func(ctx context.Context) error) {
		writes.Go(func() error {
			w.store(write)
			return nil
		})
	}
	caller := w.asker.GetCaller()
	for _, call := range w.calls {
		if item := w.items[string(call.GetId())]; item != "" {
			put(func(ctx context.Context) error { return w.Store.PutCalls(ctx, caller, item, []*checkpb.ToolCall{call}) })
		}
	}
	calls := append(slices.Clone(w.asker.GetOpen()), w.calls...)
	calls = calls[max(0, len(calls)-maxOpenCalls):]
	if len(calls) > 0 && w.id != "" {
		put(func(ctx context.Context) error { return w.Store.PutCalls(ctx, caller, w.id, calls) })
	}
	if key := w.asker.GetConversation(); len(calls) > 0 && key != "" {
		put(func(ctx context.Context) error { return w.Store.PutCallsAt(ctx, key, calls) })
	}
	_ = writes.Wait() // store counts what was lost
}
