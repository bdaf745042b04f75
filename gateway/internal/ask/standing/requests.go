package standing

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	// maxAge is how long a request is remembered. Changes of policies and overrides must take
	// effect within a second.
	maxAge = 250 * time.Millisecond
	// maxRequests bounds the requests that are remembered.
	maxRequests = 10_000
)

// Raw is a request as received: everything that its check can depend on.
type Raw struct {
	Method, Target, Host string
	// Peer is the client's address without its port.
	Peer string
	// Client and Tenant are those of the client's credential.
	Client, Tenant string
	Header         map[string][]string
	Body           []byte
}

// Digest identifies a raw request. The zero value identifies none.
type Digest [2]uint64

// Requests remembers recently blocked requests by their bytes, with their checks. B is the
// basis of a check, such as the policies in force; with another basis, a request is unknown.
// K is kept with a request. Make it with NewRequests. It is safe for concurrent use.
type Requests[B comparable, K any] struct {
	blocks *Blocks
	// Two random seeds make a digest of 128 bits that clients can't forge.
	seeds [2]maphash.Seed
	mu    sync.Mutex
	known map[Digest]request[B, K]
	// lastSweep is the time of the last removal of expired requests.
	lastSweep time.Time
}

type request[B comparable, K any] struct {
	check *checkpb.Check
	basis B
	kept  K
	until time.Time
}

// NewRequests returns a store without requests. A request is blocked as long as a counter
// of its check is blocked in blocks.
func NewRequests[B comparable, K any](blocks *Blocks) *Requests[B, K] {
	return &Requests[B, K]{
		blocks: blocks, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, known: map[Digest]request[B, K]{},
	}
}

// Any reports whether any request is remembered, so that computing a digest is worthwhile.
func (s *Requests[B, K]) Any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known) > 0
}

// Decision returns the check of a known request, the value kept with it, and the decision by
// the blocks in force; a nil decision if the request is unknown or no longer blocked. Like
// Blocks.Decision, it keeps the hit for the next report.
func (s *Requests[B, K]) Decision(now time.Time, d Digest, basis B) (check *checkpb.Check, kept K, decision *checkpb.Decision) {
	s.mu.Lock()
	r, known := s.known[d]
	s.mu.Unlock()
	if !known || r.basis != basis || !now.Before(r.until) {
		return nil, kept, nil
	}
	return r.check, r.kept, s.blocks.Decision(now, r.check)
}

// Remember keeps a request that is now blocked.
func (s *Requests[B, K]) Remember(now time.Time, d Digest, basis B, check *checkpb.Check, kept K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxRequests || now.Sub(s.lastSweep) >= maxAge {
		s.sweep(now)
	}
	s.known[d] = request[B, K]{check: check, basis: basis, kept: kept, until: now.Add(maxAge)}
}

// sweep drops expired requests; all if that is not enough: a loop whose requests always
// differ in some byte would fill the memory with checks.
func (s *Requests[B, K]) sweep(now time.Time) {
	s.lastSweep = now
	for d, r := range s.known {
		if r.until.Before(now) {
			delete(s.known, d)
		}
	}
	if len(s.known) >= maxRequests {
		clear(s.known)
	}
}

// Digest returns the digest of a request. The hashes of headers are added, because maps have
// no order.
func (s *Requests[B, K]) Digest(r *Raw) Digest {
	var room [512]byte
	b := room[:0]
	var headers, sum Digest
	for name, values := range r.Header {
		b = appendField(b[:0], name)
		for _, v := range values {
			b = appendField(b, v)
		}
		for i, seed := range s.seeds {
			headers[i] += maphash.Bytes(seed, b)
		}
	}
	b = b[:0]
	for _, field := range [...]string{r.Method, r.Target, r.Host, r.Peer, r.Client, r.Tenant} {
		b = appendField(b, field)
	}
	whole := len(b)
	for i, seed := range s.seeds {
		b = binary.BigEndian.AppendUint64(b[:whole], headers[i])
		b = binary.BigEndian.AppendUint64(b, maphash.Bytes(seed, r.Body))
		sum[i] = maphash.Bytes(seed, b)
	}
	return sum
}
