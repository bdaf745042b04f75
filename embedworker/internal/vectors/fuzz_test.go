package vectors

import (
	"testing"
	"time"

	"github.com/unloop/unloop/embedworker/internal/compare"
)

// FuzzHistory takes whatever a bucket may hold for a scope's history: requests are
// compared with it, and are remembered in it.
func FuzzHistory(f *testing.F) {
	now := time.UnixMilli(1_700_000_000_000)
	r := Request{Scope: Scope{Kind: "session", Key: "s"}, Subject: compare.Subject{Halves: [][]float32{{1, 0}}}, Keep: 5, TTL: time.Hour, Text: "t"}
	once := new(history).appended(r, now, usualRoom())
	seed := once.Append(nil)
	f.Add(seed)
	f.Add([]byte("\x0a\x04\x0a\x03abc"))
	f.Add([]byte("\x12\x04\x08\x01\x10\x03"))
	f.Fuzz(func(t *testing.T, stored []byte) {
		var h history
		if h.Parse(stored) != nil {
			return
		}
		h.Stored(7)
		h.Missing(history{})
		h.Add(3, stored)
		if past := h.found(r, now); len(past.Past) > r.Keep {
			t.Errorf("%d are remembered", len(past.Past))
		}
		next := h.appended(r, now, usualRoom())
		if err := new(history).Parse(next.Append(nil)); err != nil {
			t.Error(err)
		}
		_ = next.keepFor(now)
	})
}
