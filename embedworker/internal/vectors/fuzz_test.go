package vectors

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/embedworker/internal/compare"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// FuzzHistory takes whatever a bucket may hold for a scope's history: requests are
// compared with it, and are remembered in it.
func FuzzHistory(f *testing.F) {
	now := time.UnixMilli(1_700_000_000_000)
	r := Request{Scope: Scope{Kind: "session", Key: "s"}, Subject: compare.Subject{Halves: [][]float32{{1, 0}}}, Keep: 5, TTL: time.Hour, Text: "t"}
	seed, err := proto.Marshal(appended(new(semanticpb.VectorHistory), r, now))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte("\x0a\x04\x0a\x03abc"))
	f.Fuzz(func(t *testing.T, stored []byte) {
		var h history
		if h.Parse(stored) != nil {
			return
		}
		if past := found(h.pb, r, now); len(past.Past) > r.Keep {
			t.Errorf("%d are remembered", len(past.Past))
		}
		next := history{fitted(appended(h.pb, r, now), usualRoom())}
		if err := new(history).Parse(next.Append(nil)); err != nil {
			t.Error(err)
		}
		_ = keepFor(next.pb, now)
	})
}
