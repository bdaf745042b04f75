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
	// scopeDomain is the domain of the hashes that are the keys of histories of texts.
	scopeDomain = "unloop/scope/2"
	// exchangeBytes is the number of bytes at the end of each half of an exchange that are
	// sent: more than embedders read.
	exchangeBytes = 8 << 10
	// endSentences is the number of last sentences that identify a prompt without a session:
	// retries put their complaint before or after them.
	endSentences = 2
)

// semantics returns the newest exchange of a prompt, and how the semantic detectors of the
// matching policies compare it.
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
			continue // the operator turned off the detection of repeated prompts
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

// exchange is the newest exchange of a conversation.
type exchange struct {
	wire *semanticpb.Exchange
	// sentences are those of the human's part.
	sentences sentences.List
}

// alone reports whether the agent has not spoken yet.
func (e *exchange) alone() bool { return e.wire.GetSaid() == "" }

// newestExchange returns the agent's last message and the answer to it; nil if there is no
// text to compare. An answer alone, in a request whose history the provider stores, says too
// little.
func (m *maker) newestExchange() *exchange {
	t := m.Prompt.Transcript
	said, answered := t.Exchange(exchangeBytes)
	if strings.TrimSpace(said) == "" && (strings.TrimSpace(answered) == "" || m.Prompt.Delta) {
		return nil
	}
	human, media := t.Human()
	e := &exchange{sentences: sentences.Of(human, said != "")}
	if !media.IsZero() {
		e.sentences = append(e.sentences, sentences.Number(media[:]))
	}
	trace := &semanticpb.Trace{Sentences: e.sentences.Bytes()}
	trace.Digest, trace.Earlier, trace.Further = t.Digests()
	if said == "" && m.OwnSession {
		trace.Beginnings = sentences.Beginnings(human).Bytes()
	}
	e.wire = &semanticpb.Exchange{Trace: trace}
	e.wire.Said, e.wire.Answered = valid(said, answered)
	return e
}

// setComparison sets how the exchange is compared, and with which texts of its scope.
// Requests that begin alike and name no session may belong to one conversation or to a
// batch. The requests of a conversation repeat its history, so that earlier exchanges need
// not be embedded before a later one may be similar.
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

// scope returns the key of the history of exchanges that this one is compared with. Each
// policy has its own histories.
func (m *maker) scope(p *bundle.Policy, shadow bool, newest *exchange) []byte {
	b := fingerprint.New(scopeDomain).String(p.ID).String(p.Semantic.Scope)
	if shadow {
		b.String("shadow")
	}
	switch p.Semantic.Scope {
	case "tenant":
		b.String(m.Identity.GetTenant())
		if !m.Client.Tenanted { // the name is not verified, and callers must not write to each other's history
			b.String(m.Identity.GetCaller())
		}
	case "caller":
		b.String(m.Identity.GetCaller())
	default:
		m.addSession(b, newest)
	}
	return b.Sum().Bytes()
}

// addSession adds the agent's session. A prompt that begins a conversation without naming a
// session would get a new session for each wording; it shares one with the caller's other
// prompts with the same instructions and the same end.
func (m *maker) addSession(b *fingerprint.Builder, newest *exchange) {
	if m.OwnSession || !newest.alone() {
		b.Bytes(m.agent())
		return
	}
	b.String("no session").String(m.Identity.GetCaller()).Digest(m.Prompt.Transcript.Agent()).Bytes(newest.sentences.Last(endSentences).Bytes())
}
