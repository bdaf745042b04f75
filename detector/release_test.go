package detector_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/policy"
)

// A tool loop whose policy remembers an agent for a day stays released for a day.
func TestReleaseKeepsAToolLoopForAsLongAsItsPolicy(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	day := func(items ...*checkpb.HistoryItem) *checkpb.Check {
		c := toolCheck(items...)
		setTool(c.GetWatches()[0], func(t *policy.Tool) { t.TTLSeconds = 24 * 60 * 60 })
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

// A release of one conversation's loop leaves the blocks and counts of others that send the
// same prompt.
func TestAReleaseLeavesOtherConversationsOfThePrompt(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	check := func(session string) *checkpb.Check {
		c := promptCheck("shared")
		fp := c.GetCounters()[0].GetFingerprint()
		mark := sha256.Sum256([]byte(session))
		copy(fp[16:24], mark[:8])
		c.Counters[0].Parted = true
		c.Identity.Session = hex.EncodeToString([]byte(session))
		return c
	}
	loops := map[string]string{}
	for _, session := range []string{"released", "blocked"} {
		for range 6 {
			for _, f := range ask(t, nc, check(session))[0].GetFindings() {
				loops[session] = f.GetLoopId()
			}
		}
	}
	ask(t, nc, check("counted"))
	if r := release(t, nc, loops["released"]); r.GetError() != "" || r.GetCount() != 1 {
		t.Fatal(r)
	}
	for session, want := range map[string]uint32{"released": 1, "blocked": 7, "counted": 2} {
		d := ask(t, nc, check(session))[0]
		if d.GetHitCounts()[0] != want || d.GetAction().Stops() != (session == "blocked") {
			t.Errorf("%s: count %v, %s", session, d.GetHitCounts(), d.GetAction().Label())
		}
	}
	stream, err := s.JetStream().Stream(t.Context(), "KV_"+schemas.BucketCounters)
	if err == nil {
		err = stream.Purge(t.Context()) // as under a flood
	}
	if err != nil {
		t.Fatal(err)
	}
	for session, stops := range map[string]bool{"released": false, "blocked": true} {
		if d := ask(t, nc, check(session))[0]; d.GetAction().Stops() != stops {
			t.Errorf("%s, without its record: %v", session, d)
		}
	}
}

// A detector that was disconnected during a release does not bring the block back.
func TestAReleaseThatADetectorMissedHolds(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	away := startDetector(t, s)
	nc := s.Conn()
	for range 6 {
		ask(t, nc, promptCheck("p"))
	}
	purge := func(bucket string) {
		stream, err := s.JetStream().Stream(t.Context(), "KV_"+bucket)
		if err == nil {
			err = stream.Purge(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	peek := promptCheck("p")
	peek.Peek = true
	purge(schemas.BucketCounters) // the record of a released counter expires
	if d := ask(t, nc, peek)[0]; !d.GetAction().Stops() {
		t.Fatalf("the block is kept apart: %v", d)
	}
	purge(schemas.BucketBlocks) // what another detector does for a release
	if err := away.nc.NATS().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		d, err := tryAsk(nc, time.Second, peek) // one that it gets while it is away is lost
		if err == nil && d[0].GetError() == "" && !d[0].GetAction().Stops() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the block is back: %v, %v", d, err)
		}
	}
}
