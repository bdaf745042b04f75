package gateway

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
	"github.com/unloop/unloop/schemas/semanticpb"
)

const (
	// scopeDomain is the domain of the hash that names whose texts are compared.
	scopeDomain = "unloop/scope/1"
	// exchangeBytes is how much is sent of each half of an exchange, from its
	// end: more than embedders read.
	exchangeBytes = 8 << 10
	// endRunes is how much of its end tells one prompt without a session from
	// others: retries put their complaint in front and keep the end, while the
	// prompts of a batch differ in it, or in much of what stands before.
	endRunes = 48
)

// semantics lists the semantic detectors of the matching policies, and the
// exchange that they judge. Only a prompt has one.
func (x *exchange) semantics(policies []*policy.Policy, now time.Time) (*semanticpb.Exchange, []*checkpb.SemanticWatch) {
	if x.prompt == nil || x.run != nil || x.identity.GetCaller() == "" {
		return nil, nil
	}
	var newest *semanticpb.Exchange
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
		w := semanticWatch(p)
		w.Shadow = p.Shadow(now) || p.HeldOut(x.identity.GetSession())
		w.Scope = x.scope(p, w.Shadow, newest)
		out = append(out, w)
	}
	return newest, out
}

// newestExchange is what the agent did last and what it was answered; nil if
// there is no text to judge. Where the provider keeps the history, an answer
// comes alone, and says too little.
func (x *exchange) newestExchange() *semanticpb.Exchange {
	said, answered := x.prompt.Transcript.Exchange(exchangeBytes)
	if strings.TrimSpace(said) == "" && (strings.TrimSpace(answered) == "" || x.prompt.Delta) {
		return nil
	}
	return &semanticpb.Exchange{
		Said:     strings.ToValidUTF8(said, string(utf8.RuneError)),
		Answered: strings.ToValidUTF8(answered, string(utf8.RuneError)),
	}
}

// scope names whose exchanges this one is compared with. Each policy has
// histories of its own.
func (x *exchange) scope(p *policy.Policy, shadow bool, newest *semanticpb.Exchange) []byte {
	b := fingerprint.New(scopeDomain).String(p.ID).String(p.Semantic.Scope)
	if shadow {
		b.String("shadow")
	}
	switch p.Semantic.Scope {
	case "tenant":
		b.String(x.identity.GetTenant())
		if !x.client.Tenanted { // the name is a mere label: nobody may touch another's history
			b.String(x.identity.GetCaller())
		}
	case "caller":
		b.String(x.identity.GetCaller())
	default:
		x.addSession(b, newest)
	}
	sum := b.Sum()
	return sum[:]
}

// addSession adds the agent's session. A prompt that begins a conversation and
// names no session would be one of its own in each wording; it goes with the
// caller's others of the same instructions and the same end.
func (x *exchange) addSession(b *fingerprint.Builder, newest *semanticpb.Exchange) {
	if x.ownSession || newest.GetSaid() != "" {
		b.Bytes(x.agent())
		return
	}
	b.String("no session").String(x.identity.GetCaller()).Digest(x.prompt.Transcript.Agent()).String(lastRunes(newest.GetAnswered(), endRunes))
}

// lastRunes is the end of a text without regard to case and outer white space.
func lastRunes(text string, n int) string {
	text = strings.TrimSpace(text)
	end := len(text)
	for ; n > 0 && end > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(text[:end])
		end -= size
	}
	return strings.ToLower(text[end:])
}

var scopeKinds = map[string]semanticpb.ScopeKind{
	"session": semanticpb.ScopeKind_SCOPE_KIND_SESSION,
	"caller":  semanticpb.ScopeKind_SCOPE_KIND_CALLER,
	"tenant":  semanticpb.ScopeKind_SCOPE_KIND_TENANT,
}

// semanticWatch are a policy's parameters for the semantic detector.
func semanticWatch(p *policy.Policy) *checkpb.SemanticWatch {
	s := p.Semantic
	return &checkpb.SemanticWatch{
		Policy: p.ID, ScopeKind: scopeKinds[s.Scope], Threshold: s.Threshold, MinMatches: uint32(s.MinMatches),
		HistorySize: uint32(s.HistorySize), TtlSeconds: uint32(s.TTLSeconds), MinWords: uint32(s.MinWords),
		StoreText: s.StoreText, Steps: steps(s.Steps()), Deferred: s.Deferred, BudgetMs: uint32(s.BudgetMS),
	}
}
