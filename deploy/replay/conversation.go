package replay

import (
	"bytes"
	"context"
	"slices"

	"github.com/unloop/unloop/deploy/replay/logs"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/excerpts"
)

// conversation is what a run keeps of a conversation whose requests only add to it.
type conversation struct {
	gateway.Conversation
	begun  bool
	recent [][]byte // the newest messages, which show the rounds
}

// bodyOf returns the body of a request. If that has only what the request adds, it also
// returns the conversation, which the request is added to, and what the body has of it.
func bodyOf(q *logs.Request) (body []byte, c *gateway.Conversation, part gateway.Part) {
	if q.Conversation == nil {
		return q.Body, nil, part
	}
	known, _ := q.Conversation.State.(*conversation)
	if known == nil {
		known = &conversation{}
		q.Conversation.State = known
	}
	body, part.Frame = q.Conversation.Body(q.Model, q.Added, !known.begun)
	for i, m := range q.Added {
		part.Added += min(i, 1) + len(m)
	}
	known.begun, known.recent = true, append(known.recent, q.Added...)
	known.recent = slices.Delete(known.recent, 0, max(0, len(known.recent)-gateway.ShownMessages))
	return body, &known.Conversation, part
}

// Pass takes a request over into its conversation without evaluating it.
func (r *Run) Pass(ctx context.Context, file string, q *logs.Request) error {
	body, c, part := bodyOf(q)
	if c == nil {
		return nil
	}
	req, err := httpRequest(ctx, file, q, body)
	if err != nil {
		return err
	}
	return r.gateways[0].Pass(req, c, part)
}

// Keep returns a request that Rounds can read later. It is to be called before the next
// request is evaluated.
func (r *Run) Keep(q *logs.Request) *logs.Request {
	kept := *q
	kept.Body = bytes.Clone(q.Body)
	if q.Conversation != nil {
		known, _ := q.Conversation.State.(*conversation)
		kept.Conversation, kept.Added = &logs.Conversation{Members: q.Conversation.Members}, slices.Clone(known.recent)
	}
	return &kept
}

// Rounds returns what a request, which Keep returned, shows of its conversation.
func (r *Run) Rounds(ctx context.Context, file string, kept *logs.Request) (excerpts.Loop, error) {
	body, _, _ := bodyOf(kept)
	req, err := httpRequest(ctx, file, kept, body)
	if err != nil {
		return excerpts.Loop{}, err
	}
	return r.gateways[0].Rounds(req)
}
