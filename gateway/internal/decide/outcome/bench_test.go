package outcome

import (
	"net/http"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/schemas/checkpb"
)

// BenchmarkBlocked is what a request of a standing block costs: its outcome, headers
// and body.
func BenchmarkBlocked(b *testing.B) {
	f := foundWith(checkpb.Action_ACTION_REJECT)
	f.BlockedMs = 30_000
	c := &Case{Decision: found(f), Caller: caller, Template: &Template{}}
	var body []byte
	b.ReportAllocs()
	for b.Loop() {
		o := Decide(c)
		o.Headers.Put(http.Header{})
		body = o.Body(body[:0], chat.Chat{})
	}
}
