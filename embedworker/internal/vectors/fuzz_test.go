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
	appended := func(tb testing.TB, h *history) history {
		tb.Helper()
		kept, replaced := h.remembered(r, now)
		if past := h.compared(r, kept, replaced, now); len(past.Past) > r.Keep {
			tb.Errorf("%d are remembered", len(past.Past))
		}
		return h.before(r, kept, now, usualRoom())
	}
	once := appended(f, new(history))
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
		next := appended(t, &h)
		if err := new(history).Parse(next.Append(nil)); err != nil {
			t.Error(err)
		}
		_ = next.keepFor(now)
	})
}
