package detector_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// A tool loop whose policy remembers an agent for a day stays released for a day.
func TestReleaseKeepsAToolLoopForAsLongAsItsPolicy(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	day := func(items ...*checkpb.HistoryItem) *checkpb.Check {
		c := toolCheck(items...)
		c.Watches[0].Params.IdleSeconds = 24 * 60 * 60
		return c
	}
	history := rounds(5, same)
	var loopID string
	for i := range history {
		for _, f := range ask(t, nc, day(history[:i+1]...))[0].GetFindings() {
			loopID = f.GetLoopId()
		}
	}
	if reply := release(t, nc, loopID); reply.GetError() != "" {
		t.Fatal(reply.GetError())
	}
	stream, err := s.JetStream().Stream(t.Context(), "KV_"+schemas.BucketSessions)
	if err != nil {
		t.Fatal(err)
	}
	agent := sha256.Sum256([]byte("agent"))
	msg, err := stream.GetLastMsgForSubject(t.Context(), "$KV."+schemas.BucketSessions+"."+schemas.SessionKey(false, "default", agent[:]))
	if err != nil {
		t.Fatal(err)
	}
	if ttl := msg.Header.Get("Nats-TTL"); ttl != "86401s" {
		t.Errorf("the released session is kept for %s, want 86401s", ttl)
	}
}

func TestReleaseFreesEveryCounterOfAConversation(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	const prompts = 150
	var all []*checkpb.Check
	for i := range prompts {
		c := promptCheck(fmt.Sprint("prompt ", i))
		c.Hits = 6
		all = append(all, c)
	}
	other := promptCheck("of another conversation")
	other.Identity.Session, other.Hits = "0the4", 6
	all = append(all, other)
	blocked := ask(t, nc, all...)
	reply := release(t, nc, blocked[0].GetFindings()[0].GetLoopId())
	if reply.GetError() != "" || reply.GetCount() != prompts {
		t.Fatalf("released %d counters, want %d (%s)", reply.GetCount(), prompts, reply.GetError())
	}
	for _, c := range all {
		c.Hits = 0
	}
	decisions := ask(t, nc, all...)
	for i, d := range decisions[:prompts] {
		if d.GetHitCounts()[0] != 1 {
			t.Errorf("prompt %d: count %d after the release, want 1", i, d.GetHitCounts()[0])
		}
	}
	if d := decisions[prompts]; d.GetHitCounts()[0] != 7 {
		t.Errorf("the other conversation's count is %d, want 7", d.GetHitCounts()[0])
	}
}
