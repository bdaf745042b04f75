package gateway

import (
	"net/http"

	"github.com/nats-io/nuid"

	"github.com/unloop/unloop/gateway/internal/intake"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/respond"
)

// stop answers a request that is not to be forwarded.
func (g *Gateway) stop(w http.ResponseWriter, x *exchange) bool {
	if x.out.Forwards() {
		return false
	}
	defer x.account.GiveBack()
	g.metrics.requests.WithLabelValues(x.Provider.Name(), x.out.Label).Inc()
	g.respond(w, x)
	return true
}

// respond writes the answer of an outcome that is not forwarded.
func (g *Gateway) respond(w http.ResponseWriter, x *exchange) {
	if x.out.Text != "" && g.answerInPlace(w, x) {
		return
	}
	x.out.Headers.Put(w.Header())
	room, ok := g.refusals.Get().(*[]byte)
	if !ok {
		room = new([]byte)
	}
	*room = x.out.Body((*room)[:0], x.Provider)
	g.answer(w, x, x.out.Status, provider.TypeJSON, *room)
	g.refusals.Put(room)
}

// answerInPlace answers in the model's place. Where the format has no such answer, the
// outcome becomes a refusal.
func (g *Gateway) answerInPlace(w http.ResponseWriter, x *exchange) bool {
	said, err := x.Provider.Answer(x.Prompt, provider.Reply{ID: nuid.Next(), Text: x.out.Text, At: g.now(), URL: x.r.URL})
	if err != nil {
		x.out = x.out.Refused()
		return false
	}
	x.out.Headers.Put(w.Header())
	if said.ContentType == provider.TypeEvents {
		w.Header().Set("Cache-Control", "no-cache")
	}
	g.metrics.synthetic.WithLabelValues(x.Provider.Name()).Inc()
	g.answer(w, x, x.out.Status, said.ContentType, said.Body)
	return true
}

func (g *Gateway) refuse(w http.ResponseWriter, x *exchange, r provider.Refusal) {
	x.account.Status = r.Status
	respond.Refuse(w, x.r, x.Provider, r)
}

func (g *Gateway) answer(w http.ResponseWriter, x *exchange, status int, contentType string, body []byte) {
	x.account.Status = status
	intake.Hurry(x.r)
	respond.Write(w, x.Method, status, contentType, body)
}
