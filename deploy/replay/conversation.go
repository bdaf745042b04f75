package replay

import (
	"bytes"
	"context"
	"net/http"
	"slices"

	"github.com/unloop/unloop/deploy/replay/logs"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/excerpts"
)

// conversation is what a run keeps of a conversation whose requests only add to it.
type conversation struct {
	gateway.Conversation
	request *http.Request // as all are, without a body
	begun   bool
	recent  [][]byte // the newest messages, which show the rounds
}

// requestOf returns a request as its client sent it, as far as it is known. If the recording has
// only what it adds to a conversation, it has no body, and the conversation and the part that it
// adds are returned.
func requestOf(ctx context.Context, file string, q *logs.Request) (req *http.Request, c *gateway.Conversation, part gateway.Part, err error) {
	if q.Conversation == nil {
		req, err = httpRequest(ctx, file, q, bytes.NewReader(q.Body))
		return req, nil, part, err
	}
	known, _ := q.Conversation.State.(*conversation)
	if known == nil {
		known = &conversation{}
		if known.request, err = httpRequest(ctx, file, q, http.NoBody); err != nil {
			return nil, nil, part, err
		}
		q.Conversation.State = known
	}
	part.Body, part.Frame = q.Conversation.Body(q.Model, q.Added, !known.begun)
	for i, m := range q.Added {
		part.Added += min(i, 1) + len(m)
	}
	known.begun, known.recent = true, append(known.recent, q.Added...)
	known.recent = slices.Delete(known.recent, 0, max(0, len(known.recent)-gateway.ShownMessages))
	return known.request, &known.Conversation, part, nil
}

// Pass takes a request over into its conversation without evaluating it.
func (r *Run) Pass(ctx context.Context, file string, q *logs.Request) error {
	req, c, part, err := requestOf(ctx, file, q)
	if err != nil || c == nil {
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
	whole := *kept
	if c := kept.Conversation; c != nil {
		whole.Body, _ = c.Body(kept.Model, kept.Added, true)
	}
	req, err := httpRequest(ctx, file, &whole, bytes.NewReader(whole.Body))
	if err != nil {
		return excerpts.Loop{}, err
	}
	return r.gateways[0].Rounds(req)
}
