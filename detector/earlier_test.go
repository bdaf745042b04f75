package detector_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// earlierTime is when the records in testdata/earlier.json were written, by a detector of
// the version whose keys ended in whole hashes in hex. They stay as they are.
var earlierTime = time.Date(2026, 11, 22, 5, 0, 0, 0, time.UTC)

// The checks that those records are of.
func earlierBlocked() *checkpb.Check { return promptCheck("blocked") }

func earlierParts() *checkpb.Check {
	c := promptCheck("parts")
	c.Counters[0].Parted = true
	return c
}

func earlierCounted() *checkpb.Check {
	c := promptCheck("counted")
	c.Counters[0].Detector = "request"
	return c
}

func earlierReleased() *checkpb.Check {
	c := toolCheck(append([]*checkpb.HistoryItem{human("go")}, rounds(5, same)...)...)
	c.Identity.Session = "aa"
	return c
}

func earlierLimited() *checkpb.Check {
	return limited(func(l *checkpb.Limit) { l.Bucket = &checkpb.Bucket{Rate: 0.001, Capacity: 2} })
}

// putEarlier stores the records of some buckets.
func putEarlier(t *testing.T, s *natstest.Server, buckets ...string) {
	t.Helper()
	body, err := os.ReadFile("testdata/earlier.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string][]byte
	if err := json.Unmarshal(body, &all); err != nil {
		t.Fatal(err)
	}
	for _, bucket := range buckets {
		kv, err := s.JetStream().KeyValue(t.Context(), bucket)
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range all[bucket] {
			if _, err := kv.Put(t.Context(), key, value); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func afterEarlier() time.Time { return earlierTime.Add(time.Second) }

// What a version before this one stored goes on: blocks stand, counts and costs count,
// and what an operator released passes.
func TestRecordsOfAnEarlierVersionAreContinued(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	putEarlier(t, s, schemas.BucketCounters, schemas.BucketSessions, schemas.BucketLimits, schemas.BucketBlocks)
	startDetector(t, s, detector.WithClock(afterEarlier))
	startDetector(t, s, detector.WithClock(afterEarlier))
	answer(t, s, says(similar))
	nc := s.Conn()
	for name, c := range map[string]struct {
		check  *checkpb.Check
		action checkpb.Action
		hits   uint32
	}{
		"a standing block":          {earlierBlocked(), checkpb.Action_ACTION_REJECT, 7},
		"a block of one part":       {earlierParts(), checkpb.Action_ACTION_REJECT, 7},
		"a count":                   {earlierCounted(), checkpb.Action_ACTION_ALLOW, 4},
		"a released agent":          {earlierReleased(), checkpb.Action_ACTION_ALLOW, 0},
		"an empty bucket of tokens": {earlierLimited(), checkpb.Action_ACTION_REJECT, 0},
		"the eighth finding":        {meaningCheck(), checkpb.Action_ACTION_REJECT, 0},
	} {
		peek := proto.CloneOf(c.check)
		peek.Peek = true
		for _, d := range append(ask(t, nc, peek), ask(t, nc, c.check)...) {
			if d.GetError() != "" || d.GetAction() != c.action {
				t.Errorf("%s: %v", name, d)
			}
			if c.hits > 0 && d.GetHitCounts()[0] != c.hits && d.GetHitCounts()[0] != c.hits-1 {
				t.Errorf("%s: count %v, want %d", name, d.GetHitCounts(), c.hits)
			}
		}
	}
}

// A block stands, although its counter was evicted.
func TestBlocksOfAnEarlierVersionStandAlone(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	putEarlier(t, s, schemas.BucketBlocks)
	startDetector(t, s, detector.WithClock(afterEarlier))
	for _, check := range []*checkpb.Check{earlierBlocked(), earlierParts()} {
		if d := ask(t, s.Conn(), check)[0]; d.GetAction() != checkpb.Action_ACTION_REJECT {
			t.Errorf("%v", d)
		}
	}
}

// While detectors of both versions run, a block that begins at one of them stands at the
// other.
func TestBlocksAreSharedWithAnEarlierVersion(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	putEarlier(t, s, schemas.BucketCounters)
	startDetector(t, s, detector.WithClock(afterEarlier))
	nc := s.Conn()
	if d := ask(t, nc, promptCheck("again"))[0]; d.GetAction() != checkpb.Action_ACTION_ALLOW {
		t.Fatalf("%v", d)
	}
	blocks, err := s.JetStream().KeyValue(t.Context(), schemas.BucketBlocks)
	if err != nil {
		t.Fatal(err)
	}
	key := func(prompt string) string {
		return schemas.EarlierCounterKey(false, "prompt", "default", promptCheck(prompt).GetCounters()[0].GetFingerprint())
	}
	until := afterEarlier().Add(20 * time.Second).UnixMilli()
	record, _ := json.Marshal(map[string]any{"blocks": []map[string]any{{"until": until, "incident": "5e55"}}})
	if _, err := blocks.Put(t.Context(), key("again"), record); err != nil {
		t.Fatal(err)
	}
	for d := ask(t, nc, promptCheck("again"))[0]; d.GetAction() != checkpb.Action_ACTION_REJECT; d = ask(t, nc, promptCheck("again"))[0] {
		if d.GetHitCounts()[0] > 4 { // from the sixth on it would be stopped anyway
			t.Fatalf("the other version's block does not stand: %v", d)
		}
	}
	own := promptCheck("own")
	own.Hits = 6
	ask(t, nc, own)
	watch, err := blocks.Watch(t.Context(), key("own"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Stop() }()
	var entry jetstream.KeyValueEntry
	for entry == nil {
		entry = <-watch.Updates()
	}
}
