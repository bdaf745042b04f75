package gateway

import (
	"fmt"
	"sync"

	"github.com/unloop/unloop/gateway/internal/request"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// maxPassed bounds how many large bodies are remembered, at 32 bytes each.
const maxPassed = 4096

// passed remembers what the bodies that were too large to hold came to, by
// caller, beginning and length. All of such a body is known only once it has
// passed: a new one that begins alike counts as the same only as long as those
// before it were the same to their ends. The nil passed remembers nothing.
type passed struct {
	mu   sync.Mutex
	last map[fingerprint.Digest]fingerprint.Digest
}

func newPassed() *passed { return &passed{last: map[fingerprint.Digest]fingerprint.Digest{}} }

func (p *passed) get(begin fingerprint.Digest) fingerprint.Digest {
	if p == nil {
		return fingerprint.Digest{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[begin]
}

func (p *passed) put(begin, whole fingerprint.Digest) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.last[begin]; !known && len(p.last) >= maxPassed {
		for old := range p.last {
			delete(p.last, old)
			break
		}
	}
	p.last[begin] = whole
}

// follow makes a body that is too large to hold tell its digest by what the one
// before it was, and itself to the next one.
func (g *Gateway) follow(x *exchange) {
	length := fmt.Appendf(nil, "%d", x.Body.Length)
	begin := fingerprint.Chain(fingerprint.Bytes(x.Body.Bytes[:min(len(x.Body.Bytes), request.Sample)]), fingerprint.Bytes(length))
	owned := fingerprint.Chain(begin, fingerprint.Bytes([]byte(g.callerKey(x))))
	d := fingerprint.Chain(begin, g.passed.get(owned))
	x.Body.Canon = &d
	x.Body.Whole = func(sum fingerprint.Digest) { g.passed.put(owned, sum) }
}
