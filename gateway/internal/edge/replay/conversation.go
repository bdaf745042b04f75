package replay

import (
	"context"
	"slices"

	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/edge/stages"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/size"
	"github.com/unloop/unloop/gateway/internal/wire/transcript"
	"github.com/unloop/unloop/gateway/internal/wire/usage"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Conversation is a row of requests that each repeat the messages of the one before and add
// some. Their evidence is that of the whole request, but evaluating one takes time only for
// the new messages. All have the same headers and path. The zero value is empty.
type Conversation struct {
	request    *request.Request // the first, before its body was read
	transcript *transcript.Transcript
	list       size.Size    // of all messages, with the commas between them
	bounds     usage.Bounds // without the messages
	digest     fingerprint.Digest
	lost       string // why a request of it could not be read
}

// Part is what a request adds to its conversation.
type Part struct {
	// Body has only the added messages, and nothing may change it afterwards.
	Body []byte
	// Frame is the length of the whole request without its messages, Added that of the added
	// messages with the commas between them.
	Frame, Added int
}

// brackets is the length of the brackets around a list.
const brackets = 2

// next reads the next request.
func (c *Conversation) next(ctx context.Context, part Part, s *stages.Stages, rules *policystore.Rules) *request.Request {
	unread := *c.request
	unread.Body = intake.InMemory(part.Body, s.MaxInspectBytes)
	req := s.ParseNext(ctx, &unread, rules, c.transcript)
	if c.lost == "" {
		c.lost = req.Uninspected
	}
	if c.lost != "" { // so is the whole request
		left := *req
		left.Prompt, left.Uninspected = nil, c.lost
		return &left
	}
	if req.Prompt == nil {
		return req
	}
	added := size.Of(req.Body.Inspected())
	added.Text += part.Added - len(req.Body.Inspected()) // without what is around the messages
	if c.transcript == nil {
		c.bounds, c.list = req.Body.Bounds(), added
		c.bounds.Prompt -= tokens(added, brackets)
	} else {
		c.list = size.Size{Text: c.list.Text + len(",") + added.Text, Media: c.list.Media + added.Media}
	}
	c.transcript = req.Prompt.Transcript
	bounds := c.bounds
	bounds.Prompt += tokens(c.list, brackets)
	digest := fingerprint.Digest{}
	if slices.ContainsFunc(rules.Policies(), func(p *bundle.Policy) bool { return p.LoopDetection != nil }) {
		c.digest = fingerprint.Chain(c.digest, req.Body.Digest())
		digest = c.digest
	}
	req.Body = req.Body.Continuing(tokens(c.list, part.Frame), bounds, digest)
	return req
}

// tokens returns an estimate of the tokens of messages with what is around them.
func tokens(list size.Size, frame int) int {
	list.Text += frame
	return list.Tokens()
}
