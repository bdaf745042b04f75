package gateway

import (
	"net/http"
	"strings"

	"github.com/nats-io/nuid"

	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/policy"
)

// wireAnswers are the answers as policies name them.
var wireAnswers = map[string]checkpb.Answer{
	policy.AnswerError:     checkpb.Answer_ANSWER_ERROR,
	policy.AnswerSynthetic: checkpb.Answer_ANSWER_SYNTHETIC,
}

// setAnswers says what a policy answers to what its watch rejects, as far as the
// request can be answered so. Where the decision alone is asked for it can't.
func (x *exchange) setAnswers(w *checkpb.ToolWatch, p *bundle.Policy) {
	if x.Asked || x.Peek || x.Run != nil || !x.Prompt.Answerable() {
		return
	}
	if p.Tool != nil {
		w.BlockAnswer = wireAnswers[p.Tool.BlockAnswer]
	}
	if p.Cycle != nil {
		w.CycleAnswer = wireAnswers[p.Cycle.BlockAnswer]
	}
}

// answerInPlace answers in the model's place, where a policy wants that for a
// finding. It returns false if it did not.
func (g *Gateway) answerInPlace(w http.ResponseWriter, x *exchange, f *checkpb.Finding) bool {
	if f.GetAnswer() != checkpb.Answer_ANSWER_SYNTHETIC || x.Prompt == nil {
		return false
	}
	said, err := x.Provider.Answer(x.Prompt, provider.Reply{ID: nuid.Next(), Text: syntheticText(f), At: g.now(), URL: x.r.URL})
	if err != nil {
		return false
	}
	x.setHeaders(w.Header())
	w.Header().Set("X-Loop-Answer", f.GetAnswer().Label())
	if said.ContentType == provider.TypeEvents {
		w.Header().Set("Cache-Control", "no-cache")
	}
	g.metrics.synthetic.WithLabelValues(x.Provider.Name()).Inc()
	g.answer(w, x, http.StatusOK, said.ContentType, said.Body)
	return true
}

// syntheticText tells a model, and whoever reads its answers, what was repeated,
// and where the result is: the client holds it. It begins with the word by which
// it is known as no model's words when it comes back in a history.
func syntheticText(f *checkpb.Finding) string {
	var b strings.Builder
	b.WriteString(codeLoop + ": " + f.GetMessage())
	b.WriteString(" What was called has answered already: the results are in this conversation, after each call. Go on from the newest of them.")
	b.WriteString(" (Unloop said this in place of the model, which was not asked.")
	if f.GetLoopId() != "" {
		b.WriteString(" Loop " + f.GetLoopId() + ".")
	}
	b.WriteString(")")
	return b.String()
}
