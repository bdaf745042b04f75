package evidence

import (
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/text/sentences"
	"github.com/unloop/unloop/gateway/internal/wire/transcript"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/semanticpb"
)

const (
	// scopeDomain is the domain of the hash that names a history of texts.
	scopeDomain = "unloop/scope/2"
	// exchangeBytes is how much is sent of each half of an exchange, from its
	// end: more than embedders read.
	exchangeBytes = 8 << 10
	// endSentences is how many of its last sentences identify a prompt without a
	// session: retries put their complaint before or behind them.
	endSentences = 2
)

// semantics returns the newest exchange, and how the semantic detectors of the matching
// policies compare it. Only a prompt has an exchange.
func (m *maker) semantics() (*semanticpb.Exchange, []*checkpb.SemanticWatch) {
	if m.Prompt == nil || m.Run != nil || m.Identity.GetCaller() == "" {
		return nil, nil
	}
	var newest *exchange
	var out []*checkpb.SemanticWatch
	for _, p := range m.Matched {
		if p.Semantic == nil {
			continue
		}
		if newest == nil {
			if newest = m.newestExchange(); newest == nil {
				return nil, nil
			}
		}
		if newest.alone() && p.PromptOff {
			continue // the operator turned the detection of repeated prompts off
		}
		if slices.Contains(m.again, p.ID) {
			continue // the tool detector counts such calls, and knows what was done in between
		}
		w := &checkpb.SemanticWatch{Policy: p.ID, Params: p.SemanticWire}
		w.Shadow = m.shadow(p)
		w.Scope = m.scope(p, w.Shadow, newest)
		m.setComparison(w, p, newest)
		out = append(out, w)
	}
	if len(out) == 0 {
		return nil, nil
	}
	if slices.ContainsFunc(out, (*checkpb.SemanticWatch).GetLazy) {
		m.addAlike(newest.wire)
	}
	return newest.wire, out
}

// exchange is the newest exchange of a conversation, which semantic detectors compare.
type exchange struct {
	wire *semanticpb.Exchange
	// sentences are those of the human's part.
	sentences sentences.List
}

// alone reports whether the agent has not spoken yet.
func (e *exchange) alone() bool { return e.wire.GetSaid() == "" }

// newestExchange returns the agent's last message and the answer to it; nil without text to
// compare. If the provider keeps the history, the request has only an answer, which says
// too little.
func (m *maker) newestExchange() *exchange {
	t := m.Prompt.Transcript
	said, answered := t.Exchange(exchangeBytes)
	if strings.TrimSpace(said) == "" && (strings.TrimSpace(answered) == "" || m.Prompt.Delta) {
		return nil
	}
	human, media := t.Human()
	e := &exchange{sentences: sentences.Of(human, sentences.Options{MaskNumbers: said != ""})}
	if !media.IsZero() {
		e.sentences = append(e.sentences, sentences.Number(media[:]))
	}
	trace := &semanticpb.Trace{Sentences: e.sentences.Bytes()}
	trace.Digest, trace.Earlier, trace.Further = t.Digests()
	if said == "" && m.OwnSession {
		trace.Beginnings = sentences.Beginnings(human, sentences.Options{}).Bytes()
	}
	e.wire = &semanticpb.Exchange{Trace: trace}
	e.wire.Said, e.wire.Answered = valid(said, answered)
	return e
}

// setComparison sets with which texts of its scope the exchange is compared, and how.
// Requests that begin alike and name no session may belong to one conversation or to a
// batch: those of a conversation show what was said before, so that earlier exchanges can
// be embedded when a later one may be similar.
func (m *maker) setComparison(w *checkpb.SemanticWatch, p *bundle.Policy, newest *exchange) {
	alone, inSession := newest.alone(), p.Semantic.Scope == "session"
	switch {
	case p.PromptOff || inSession && !m.OwnSession && !alone:
		w.Compare = semanticpb.Compare_COMPARE_OWN_HISTORY
	case inSession && !m.OwnSession:
		w.Compare = semanticpb.Compare_COMPARE_SENTENCES
	}
	w.LeaveIdentical = alone && p.Prompt != nil
	w.HintOnly = alone && !m.OwnSession
	w.Turned = m.Prompt.Delta || m.Prompt.Transcript.Turned()
	w.Lazy = inSession && !alone && !m.Prompt.Delta && p.Semantic.HistorySize <= transcript.MaxEarlier
}

// scope names the history of exchanges that this one is compared with. Each policy has
// histories of its own.
func (m *maker) scope(p *bundle.Policy, shadow bool, newest *exchange) []byte {
	b := fingerprint.New(scopeDomain).String(p.ID).String(p.Semantic.Scope)
	if shadow {
		b.String("shadow")
	}
	switch p.Semantic.Scope {
	case "tenant":
		b.String(m.Identity.GetTenant())
		if !m.Client.Tenanted { // anybody may send that name, and nobody may write to the history of another
			b.String(m.Identity.GetCaller())
		}
	case "caller":
		b.String(m.Identity.GetCaller())
	default:
		m.addSession(b, newest)
	}
	return b.Sum().Bytes()
}

// addSession adds the agent's session. A prompt that begins a conversation and names no
// session would have a session of its own in each wording; it shares one with the
// caller's other prompts of the same instructions and the same end.
func (m *maker) addSession(b *fingerprint.Builder, newest *exchange) {
	if m.OwnSession || !newest.alone() {
		b.Bytes(m.agent())
		return
	}
	b.String("no session").String(m.Identity.GetCaller()).Digest(m.Prompt.Transcript.Agent()).Bytes(newest.sentences.Last(endSentences).Bytes())
}
