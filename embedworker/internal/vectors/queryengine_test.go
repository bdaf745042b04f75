package vectors

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/unloop/unloop/embedworker/realparts"
)

// The numbers of a scope's entries need no Query Engine.
func TestNumbersOfEntriesOutliveThem(t *testing.T) {
	t.Parallel()
	opts, err := redis.ParseURL(realparts.Redis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	s, i := queryEngine{client: client}, index{scope: "s"}
	for n, ttl := range []time.Duration{time.Minute, time.Hour, time.Second} {
		seq, err := s.next(t.Context(), i, Request{TTL: ttl})
		if err != nil || seq != int64(n+1) {
			t.Fatalf("entry %d has number %d, %v", n+1, seq, err)
		}
	}
	if left := client.PTTL(t.Context(), "unloop:sequence:s").Val(); left < time.Hour {
		t.Errorf("the counter is kept for %s, shorter than the second entry", left)
	}
	if seq, err := s.next(t.Context(), i, Request{Peek: true}); err != nil || seq != 4 {
		t.Errorf("a peek sees number %d, %v", seq, err)
	}
}
