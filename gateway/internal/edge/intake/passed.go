package intake

import (
	"sync"

	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/bounded"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// maxPassed bounds the large bodies that are remembered, at 64 bytes each.
const maxPassed = 4096

// passed remembers the digests of bodies that were too large to hold, by client, beginning
// and length. A whole body is known only after it has passed, so a new body counts as the
// same as the last one with its beginning, as long as those before were equal to their ends.
type passed struct {
	mu   sync.Mutex
	last map[fingerprint.Digest]fingerprint.Digest
}

func newPassed() *passed { return &passed{last: map[fingerprint.Digest]fingerprint.Digest{}} }

// Follow sets the digest of a body that is too large to hold from the client's last one with
// the same beginning, and remembers this one for the next.
func (b *Bodies) Follow(body *request.Body, client string) {
	p, begin := b.passed, body.Digest()
	key := fingerprint.Chain(begin, fingerprint.Bytes([]byte(client)))
	p.mu.Lock()
	digest := fingerprint.Chain(begin, p.last[key])
	p.mu.Unlock()
	body.Canon = &digest
	body.Whole = func(whole fingerprint.Digest) {
		p.mu.Lock()
		defer p.mu.Unlock()
		bounded.MakeRoom(p.last, key, maxPassed)
		p.last[key] = whole
	}
}
