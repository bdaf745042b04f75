package gateway

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	// maxReferences bounds the items of a request that are looked up, newest first.
	maxReferences = 256
	// lookupsAtOnce bounds the look-ups of one request that are on their way.
	lookupsAtOnce = 16
)

// dereference reads the prompt again, with the calls that it only refers to: a client
// may send the ids of items that the provider keeps in place of the items.
func (g *Gateway) dereference(x *exchange) {
	known := g.referred(x)
	if len(known) == 0 {
		return
	}
	opts := x.rules.Options(x.Path)
	opts.Known = known
	if prompt, err := x.Provider.Parse(x.Body.Inspected(), opts); err == nil && prompt != nil {
		x.Prompt = prompt
	}
}

// referred returns the calls that the request refers to, by the ids of their items.
func (g *Gateway) referred(x *exchange) map[string]provider.ToolCall {
	ids := x.Prompt.References
	ids = ids[max(0, len(ids)-maxReferences):]
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), g.cfg.CheckTimeout)
	defer cancel()
	var mu sync.Mutex
	known := map[string]provider.ToolCall{}
	var group errgroup.Group
	group.SetLimit(lookupsAtOnce)
	for _, id := range ids {
		group.Go(func() error {
			calls, err := g.answers.Calls(ctx, x.Identity.GetCaller(), id, false)
			if err != nil || len(calls) != 1 {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			known[id] = callsFrom(calls)[0]
			return nil
		})
	}
	_ = group.Wait() // what is not found is not known
	if len(known) < len(ids) {
		g.metrics.unknownCalls.Inc()
	}
	return known
}

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
	group.SetLimit(lookupsAtOnce)
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
