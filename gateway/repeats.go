package gateway

import (
	"encoding/binary"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/unloop/unloop/gateway/internal/identity"
	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	// repeatsAge is how long a request is known. Policies, overrides and their
	// times may change meanwhile, and none of them may take a second.
	repeatsAge = 250 * time.Millisecond
	// maxRepeats bounds the requests that are known.
	maxRepeats = 10_000
)

// repeats knows requests that were blocked a moment ago, so that a loop that
// hammers on costs neither the reading of its body nor the search for its
// policies, again and again. Only a request of the very same bytes is known;
// whether its block still stands is for the checker to say.
type repeats struct {
	// Two seeds make a digest of 128 bits, which nobody outside can aim at.
	seeds [2]maphash.Seed
	mu    sync.Mutex
	known map[requestDigest]repeated
	// swept is when those that were over were forgotten last.
	swept time.Time
}

// requestDigest stands for all that a request's evidence can be made of.
type requestDigest [2]uint64

// repeated is what a request was judged by.
type repeated struct {
	check  *checkpb.Check
	rules  *ruleset
	hasher *identity.Hasher
	until  time.Time
	// refusal is what the client is told; nil until the request is known.
	refusal *template
}

func newRepeats() *repeats {
	return &repeats{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, known: map[requestDigest]repeated{}}
}

// recall judges a request by what is known of it. It returns false if it has to
// be read.
func (g *Gateway) recall(x *exchange) bool {
	if !g.repeats.any() || x.Body.Rest != nil {
		return false
	}
	x.digest = g.repeats.digest(x)
	seen, ok := g.repeats.get(x.digest)
	if !ok || seen.rules != x.rules || seen.hasher != g.hasher.Load() || !g.now().Before(seen.until) {
		return false
	}
	decision := g.checker.Standing(seen.check)
	if decision == nil {
		return false
	}
	if seen.refusal == nil {
		seen.refusal = newTemplate(x.Provider, strongest(decision), seen.check.GetIdentity().GetCaller())
		g.repeats.put(g.now(), x.digest, seen)
	}
	x.refusal = seen.refusal
	x.check, x.Identity, x.decision, x.fairvisor = seen.check, seen.check.GetIdentity(), decision, x.rules.FairvisorHeaders
	g.metrics.checks.WithLabelValues("local").Inc()
	return true
}

// remember keeps what a request was judged by if its block stands.
func (g *Gateway) remember(x *exchange) {
	f := strongest(x.decision)
	if f == nil || !f.GetAction().Stops() || f.GetBlockedMs() == 0 || x.Uninspected != "" || x.degraded != "" || x.Body.Rest != nil {
		return
	}
	if x.digest == (requestDigest{}) {
		x.digest = g.repeats.digest(x)
	}
	now := g.now()
	g.repeats.put(now, x.digest, repeated{check: x.check, rules: x.rules, hasher: g.hasher.Load(), until: now.Add(repeatsAge)})
}

func (s *repeats) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known) > 0
}

func (s *repeats) get(d requestDigest) (repeated, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.known[d]
	return r, ok
}

// put keeps a request that is judged now, and makes room, if there is none.
func (s *repeats) put(now time.Time, d requestDigest, r repeated) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxRepeats || now.Sub(s.swept) >= repeatsAge {
		s.forget(now)
	}
	s.known[d] = r
}

// forget drops what is over, and all if that is not enough: a loop whose
// requests are never the same bytes twice would fill the memory with their
// evidence.
func (s *repeats) forget(now time.Time) {
	s.swept = now
	for d, r := range s.known {
		if r.until.Before(now) {
			delete(s.known, d)
		}
	}
	if len(s.known) >= maxRepeats {
		clear(s.known)
	}
}

// digest covers the request line, the peer, who the client was found to be, all
// headers and the body. Headers are added up, since they come in no order.
func (s *repeats) digest(x *exchange) requestDigest {
	var room [512]byte
	b := room[:0]
	var headers, sum requestDigest
	for name, values := range x.Header {
		b = appendDigestField(b[:0], name)
		for _, v := range values {
			b = appendDigestField(b, v)
		}
		for i, seed := range s.seeds {
			headers[i] += maphash.Bytes(seed, b)
		}
	}
	peer := x.r.RemoteAddr[:max(strings.LastIndexByte(x.r.RemoteAddr, ':'), 0)] // without its port
	b = b[:0]
	for _, field := range [...]string{x.Method, x.r.RequestURI, x.Host, peer, x.Client.ID, x.Client.Tenant} {
		b = appendDigestField(b, field)
	}
	whole := len(b)
	for i, seed := range s.seeds {
		b = binary.BigEndian.AppendUint64(b[:whole], headers[i])
		b = binary.BigEndian.AppendUint64(b, maphash.Bytes(seed, x.Body.Bytes))
		sum[i] = maphash.Bytes(seed, b)
	}
	return sum
}

func appendDigestField(b []byte, field string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(field))), field...)
}
