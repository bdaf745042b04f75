package gateway

import (
	"context"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/answers"
	"github.com/unloop/unloop/gateway/internal/identity"
	"github.com/unloop/unloop/gateway/internal/route"
)

// identify says whose request it is. One that only names the answer it goes on
// from belongs to that answer's session.
func (g *Gateway) identify(x *exchange, hasher *identity.Hasher) {
	x.identity, x.ownSession = hasher.Identify(x.r, x.provider.Key(x.r), g.cfg.Project, x.prompt)
	if x.ownSession || x.prompt == nil || x.prompt.Previous == "" {
		return
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), g.cfg.CheckTimeout)
	defer cancel()
	session, err := g.answers.Session(ctx, x.identity.GetCaller(), x.prompt.Previous)
	if err != nil {
		// An answer from before Unloop's time: what goes on from it is a session.
		session = answers.Key(x.identity.GetCaller(), x.prompt.Previous)
		g.metrics.unknownAnswers.Inc()
	}
	x.identity.Session, x.ownSession = session, true
}

// followAnswer remembers which session an answer belongs to.
func (g *Gateway) followAnswer(x *exchange, res *http.Response) {
	session := x.identity.GetSession()
	if x.target.Format != route.Responses || res.StatusCode != http.StatusOK || session == "" {
		return
	}
	caller := x.identity.GetCaller()
	res.Body = answers.Watch(res, func(id string) { g.answers.Put(caller, id, session) })
}
