package gateway

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/sentences"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
	"github.com/unloop/unloop/schemas/semanticpb"
)

const (
	// scopeDomain is the domain of the hash that names whose texts are compared.
	scopeDomain = "unloop/scope/2"
	// exchangeBytes is how much is sent of each half of an exchange, from its
	// end: more than embedders read.
	exchangeBytes = 8 << 10
	// endSentences is how many of its last sentences tell one prompt without a
	// session from others: retries put their complaint before or behind them.
	endSentences = 2
)

// semantics lists the semantic detectors of the matching policies, and the
// exchange that they judge. Only a prompt has one.
func (x *exchange) semantics(policies []*bundle.Policy, now time.Time) (*semanticpb.Exchange, []*checkpb.SemanticWatch) {
	if x.Prompt == nil || x.Run != nil || x.Identity.GetCaller() == "" {
		return nil, nil
	}
	var newest *judged
	var out []*checkpb.SemanticWatch
	for _, p := range policies {
		if p.Semantic == nil {
			continue
		}
		if newest == nil {
			if newest = x.newestExchange(); newest == nil {
				return nil, nil
			}
		}
		if newest.alone() && p.PromptOff {
			continue // prompts that repeat are what the operator turned off
		}
		if slices.Contains(x.again, p.ID) {
			continue // the tool detector counts such calls, and knows what was done in between
		}
		w := semanticWatch(p)
		w.Shadow = p.Shadow(now) || p.HeldOut(x.Identity.GetSession())
		w.Scope = x.scope(p, w.Shadow, newest)
		x.setComparison(w, p, newest)
		out = append(out, w)
	}
	if len(out) == 0 {
		return nil, nil
	}
	return newest.wire, out
}

// judged is the exchange that semantic detectors judge.
type judged struct {
	wire *semanticpb.Exchange
	// sentences are those of the human's part.
	sentences sentences.List
}

// alone reports whether the agent has not spoken yet.
func (j *judged) alone() bool { return j.wire.GetSaid() == "" }

// newestExchange is what the agent did last and what it was answered; nil if
// there is no text to judge. Where the provider keeps the history, an answer
// comes alone, and says too little.
func (x *exchange) newestExchange() *judged {
	t := x.Prompt.Transcript
	said, answered := t.Exchange(exchangeBytes)
	if strings.TrimSpace(said) == "" && (strings.TrimSpace(answered) == "" || x.Prompt.Delta) {
		return nil
	}
	j := &judged{sentences: sentences.Of(t.Human(), sentences.Options{MaskNumbers: said != ""})}
	trace := &semanticpb.Trace{Sentences: j.sentences.Bytes()}
	trace.Digest, trace.Earlier = t.Digests()
	j.wire = &semanticpb.Exchange{
		Said:     strings.ToValidUTF8(said, string(utf8.RuneError)),
		Answered: strings.ToValidUTF8(answered, string(utf8.RuneError)),
		Trace:    trace,
	}
	return j
}

// setComparison says with which texts of its scope the exchange is compared, and
// how. Requests of the same beginning that name no session may be of one
// conversation or of a batch: those of a conversation show what was said before.
func (x *exchange) setComparison(w *checkpb.SemanticWatch, p *bundle.Policy, newest *judged) {
	alone, inSession := newest.alone(), p.Semantic.Scope == "session"
	switch {
	case p.PromptOff || inSession && !x.OwnSession && !alone:
		w.Compare = semanticpb.Compare_COMPARE_OWN_HISTORY
	case inSession && !x.OwnSession:
		w.Compare = semanticpb.Compare_COMPARE_SENTENCES
	}
	w.LeaveIdentical = alone && p.Prompt != nil
	w.HintOnly = alone && !x.OwnSession
	w.UsualThreshold = inSession && !alone && p.Semantic.Threshold == policy.DefaultSemantic().Threshold
}

// scope names whose exchanges this one is compared with. Each policy has
// histories of its own.
func (x *exchange) scope(p *bundle.Policy, shadow bool, newest *judged) []byte {
	b := fingerprint.New(scopeDomain).String(p.ID).String(p.Semantic.Scope)
	if shadow {
		b.String("shadow")
	}
	switch p.Semantic.Scope {
	case "tenant":
		b.String(x.Identity.GetTenant())
		if !x.Client.Tenanted { // the name is a mere label: nobody may touch another's history
			b.String(x.Identity.GetCaller())
		}
	case "caller":
		b.String(x.Identity.GetCaller())
	default:
		x.addSession(b, newest)
	}
	sum := b.Sum()
	return sum[:]
}

// addSession adds the agent's session. A prompt that begins a conversation and
// names no session would be one of its own in each wording; it goes with the
// caller's others of the same instructions and the same end.
func (x *exchange) addSession(b *fingerprint.Builder, newest *judged) {
	if x.OwnSession || !newest.alone() {
		b.Bytes(x.agent())
		return
	}
	b.String("no session").String(x.Identity.GetCaller()).Digest(x.Prompt.Transcript.Agent()).Bytes(newest.sentences.Last(endSentences).Bytes())
}

var scopeKinds = map[string]semanticpb.ScopeKind{
	"session": semanticpb.ScopeKind_SCOPE_KIND_SESSION,
	"caller":  semanticpb.ScopeKind_SCOPE_KIND_CALLER,
	"tenant":  semanticpb.ScopeKind_SCOPE_KIND_TENANT,
}

// semanticWatch are a policy's parameters for the semantic detector.
func semanticWatch(p *bundle.Policy) *checkpb.SemanticWatch {
	s := p.Semantic
	return &checkpb.SemanticWatch{
		Policy: p.ID, ScopeKind: scopeKinds[s.Scope], Threshold: s.Threshold, MinMatches: uint32(s.MinMatches),
		HistorySize: uint32(s.HistorySize), TtlSeconds: uint32(s.TTLSeconds), MinWords: uint32(s.MinWords),
		StoreText: s.StoreText, Steps: steps(s.Steps()), Deferred: s.Deferred, BudgetMs: uint32(s.BudgetMS),
	}
}
