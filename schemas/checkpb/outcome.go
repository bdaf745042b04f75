package checkpb

import (
	"crypto/sha256"
	"encoding/binary"
	"io"

	"github.com/unloop/unloop/schemas/semanticpb"
)

// exchangeDomain is the domain of the digests of exchanges.
const exchangeDomain = "unloop/exchange/1"

// OutcomeOf is what is told of a counted check whose request came to nothing.
func OutcomeOf(check *Check) *Outcome {
	o := &Outcome{Counters: check.GetCounters(), Semantics: check.GetSemantics()}
	if len(o.GetSemantics()) > 0 {
		o.Text = TextDigest(check.GetExchange())
	}
	return o
}

// TextDigest tells one exchange from another: the first 16 bytes of a SHA-256
// over its halves, each behind its length.
func TextDigest(e *semanticpb.Exchange) []byte {
	h := sha256.New()
	for _, field := range [...]string{exchangeDomain, e.GetSaid(), e.GetAnswered()} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(field)))
		_, _ = h.Write(length[:]) // never fails (hash.Hash)
		_, _ = io.WriteString(h, field)
	}
	return h.Sum(nil)[:16]
}
