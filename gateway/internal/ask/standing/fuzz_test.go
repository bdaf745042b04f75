package standing

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas/checkpb"
)

// FuzzCooldown feeds whatever a peer may say of blocks: none is longer than the
// policy's window, and no decision is wrong for it.
func FuzzCooldown(f *testing.F) {
	seed, err := proto.Marshal(&checkpb.Cooldown{Finding: blockFinding("x")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{0x0a, 0x00})
	f.Add([]byte("\x0a\x05\x0a\x01p\x60\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, now := New(), time.Now()
		var cooldown checkpb.Cooldown
		if proto.Unmarshal(data, &cooldown) == nil {
			b.Learn(now, cooldown.GetFinding())
		}
		var forget checkpb.Forget
		check := checkOf("x")
		if d := b.Decision(now, check); d != nil && d.GetFindings()[0].GetBlockedMs() > 60_000 {
			t.Errorf("blocked for %d ms by a window of a minute", d.GetFindings()[0].GetBlockedMs())
		}
		if proto.Unmarshal(data, &forget) == nil {
			b.Forget(forget.GetCounters()...)
		}
	})
}
