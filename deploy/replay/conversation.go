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

// conversation is the state of a conversation whose recorded requests have only what they add.
type conversation struct {
	gateway.Conversation
	request *http.Request // without a body; the same for all requests
	begun   bool
	recent  [][]byte // the newest messages, which show the rounds
}

// requestOf returns the HTTP request of a recorded request. If the recording has only what it adds
// to a conversation, the request has no body, and the conversation and that part are returned.
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

// Pass adds a request to its conversation without evaluating it.
func (r *Run) Pass(ctx context.Context, file string, q *logs.Request) error {
	req, c, part, err := requestOf(ctx, file, q)
	if err != nil || c == nil {
		return err
	}
	return r.gateways[0].Pass(req, c, part)
}

// Keep returns a copy of a request for Rounds. Call it before the next request is evaluated.
func (r *Run) Keep(q *logs.Request) *logs.Request {
	kept := *q
	kept.Body = bytes.Clone(q.Body)
	if q.Conversation != nil {
		known, _ := q.Conversation.State.(*conversation)
		kept.Conversation, kept.Added = &logs.Conversation{Members: q.Conversation.Members}, slices.Clone(known.recent)
	}
	return &kept
}

// Rounds returns the rounds of the conversation up to a request that Keep returned.
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
