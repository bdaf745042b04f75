package standing

import (
	"fmt"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

// requests is a store of requests whose basis is a number and that keeps texts.
type requests = Requests[int, string]

func newRequests() *requests { return NewRequests[int, string](New()) }

// raw is a request with headers, given as names and values in turn.
func raw(method, target, body string, headers ...string) *Raw {
	r := &Raw{Method: method, Target: target, Host: "example.com", Peer: "192.0.2.1", Header: map[string][]string{}, Body: []byte(body)}
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	return r
}

func TestOnlyTheSameRequestHasTheSameDigest(t *testing.T) {
	t.Parallel()
	s := newRequests()
	usual := raw("POST", "/v1/x", "{}", "A", "1", "B", "2")
	first := s.Digest(usual)
	if same := s.Digest(raw("POST", "/v1/x", "{}", "B", "2", "A", "1")); same != first {
		t.Error("the order of headers matters")
	}
	changed := func(change func(*Raw)) *Raw {
		r := *usual
		change(&r)
		return &r
	}
	for name, other := range map[string]*Raw{
		"method":              raw("PUT", "/v1/x", "{}", "A", "1", "B", "2"),
		"path":                raw("POST", "/v1/y", "{}", "A", "1", "B", "2"),
		"query":               raw("POST", "/v1/x?q", "{}", "A", "1", "B", "2"),
		"host":                changed(func(r *Raw) { r.Host = "other" }),
		"peer":                changed(func(r *Raw) { r.Peer = "192.0.2.2" }),
		"client":              changed(func(r *Raw) { r.Client = "c" }),
		"tenant":              changed(func(r *Raw) { r.Tenant = "c" }),
		"body":                raw("POST", "/v1/x", "{ }", "A", "1", "B", "2"),
		"header":              raw("POST", "/v1/x", "{}", "A", "1"),
		"headers that swap":   raw("POST", "/v1/x", "{}", "A", "2", "B", "1"),
		"headers that repeat": raw("POST", "/v1/x", "{}", "A", "1", "B", "2", "B", "2"),
		"values that join":    raw("POST", "/v1/x", "{}", "A", "1B2"),
	} {
		if s.Digest(other) == first {
			t.Errorf("%s does not matter", name)
		}
	}
}

func TestARequestIsKnownForAMomentWhileItIsBlocked(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		digest Digest
		basis  int
		after  time.Duration
		doubt  bool
		want   bool
	}{
		"the same":                {Digest{1}, 1, 0, false, true},
		"just in time":            {Digest{1}, 1, maxAge - 1, false, true},
		"too late":                {Digest{1}, 1, maxAge, false, false},
		"other bytes":             {Digest{2}, 1, 0, false, false},
		"other policies":          {Digest{1}, 2, 0, false, false},
		"a block that is doubted": {Digest{1}, 1, 0, true, false},
	} {
		s := newRequests()
		if s.Any() {
			t.Errorf("%s: there is a request already", name)
		}
		s.blocks.Learn(now, blockFinding("x"))
		s.Remember(now, Digest{1}, 1, checkOf("x"), "kept")
		if c.doubt {
			s.blocks.Doubt()
		}
		check, kept, decision := s.Decision(now.Add(c.after), c.digest, c.basis)
		if got := decision != nil; got != c.want || !s.Any() {
			t.Errorf("%s: decision %v", name, decision)
		} else if got && (kept != "kept" || check.GetRequestId() != "x" || decision.GetAction() != checkpb.Action_ACTION_REJECT) {
			t.Errorf("%s: check %v, kept %q, decision %v", name, check, kept, decision)
		}
	}
}

func TestWhatIsKnownIsBounded(t *testing.T) {
	t.Parallel()
	s := newRequests()
	now := time.Now()
	for i := range maxRequests + 10 {
		s.Remember(now, Digest{uint64(i), 1}, 1, nil, "")
	}
	if n := len(s.known); n > maxRequests {
		t.Errorf("%d requests are known, at most %d may be", n, maxRequests)
	}
}

func TestWhatIsOverIsForgottenBeforeTheMemoryIsFull(t *testing.T) {
	t.Parallel()
	s := newRequests()
	now := time.Now()
	for i := range 100 {
		s.Remember(now, Digest{uint64(i), 1}, 1, nil, "")
		now = now.Add(maxAge / 10)
	}
	if n := len(s.known); n > 25 {
		t.Errorf("%d requests are known, of the last %s", n, 2*maxAge)
	}
}

func BenchmarkBlockedRequest(b *testing.B) {
	s, now := newRequests(), time.Now()
	f := blockFinding("x")
	s.blocks.Learn(now, f)
	r := raw("POST", "/v1/chat/completions", fmt.Sprintf("%250d", 1), "Authorization", "value of it", "Content-Type", "value of it", "User-Agent", "value of it", "Accept", "value of it")
	s.Remember(now, s.Digest(r), 1, checkOf("x"), "")
	b.ReportAllocs()
	for b.Loop() {
		if _, _, decision := s.Decision(now, s.Digest(r), 1); decision == nil {
			b.Fatal("the request is not blocked")
		}
	}
}
