package gateway

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/gateway/internal/provider/formats"
	"github.com/unloop/unloop/gateway/internal/request"
	"github.com/unloop/unloop/gateway/internal/route"
	"github.com/unloop/unloop/schemas/checkpb"
)

// digestOf is the digest of a request.
func digestOf(s *repeats, method, target, text string, headers ...string) requestDigest {
	r := httptest.NewRequest(method, target, strings.NewReader(text))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	x := exchangeOf(r, route.Target{})
	x.Body = &request.Body{Bytes: []byte(text)}
	return s.digest(x)
}

func TestOnlyTheSameRequestHasTheSameDigest(t *testing.T) {
	t.Parallel()
	s := newRepeats()
	first := digestOf(s, "POST", "/v1/x", "{}", "A", "1", "B", "2")
	if same := digestOf(s, "POST", "/v1/x", "{}", "B", "2", "A", "1"); same != first {
		t.Error("the order of headers matters")
	}
	for name, other := range map[string]requestDigest{
		"method":              digestOf(s, "PUT", "/v1/x", "{}", "A", "1", "B", "2"),
		"path":                digestOf(s, "POST", "/v1/y", "{}", "A", "1", "B", "2"),
		"query":               digestOf(s, "POST", "/v1/x?q", "{}", "A", "1", "B", "2"),
		"host":                digestOf(s, "POST", "http://other/v1/x", "{}", "A", "1", "B", "2"),
		"body":                digestOf(s, "POST", "/v1/x", "{ }", "A", "1", "B", "2"),
		"header":              digestOf(s, "POST", "/v1/x", "{}", "A", "1"),
		"headers that swap":   digestOf(s, "POST", "/v1/x", "{}", "A", "2", "B", "1"),
		"headers that repeat": digestOf(s, "POST", "/v1/x", "{}", "A", "1", "B", "2", "B", "2"),
		"values that join":    digestOf(s, "POST", "/v1/x", "{}", "A", "1B2"),
	} {
		if other == first {
			t.Errorf("%s does not matter", name)
		}
	}
}

func TestWhatIsKnownIsBounded(t *testing.T) {
	t.Parallel()
	s := newRepeats()
	now := time.Now()
	for i := range maxRepeats + 10 {
		s.put(now, requestDigest{uint64(i), 1}, repeated{until: now.Add(repeatsAge)})
	}
	if n := len(s.known); n > maxRepeats {
		t.Errorf("%d requests are known, at most %d may be", n, maxRepeats)
	}
}

func TestWhatIsOverIsForgottenBeforeTheMemoryIsFull(t *testing.T) {
	t.Parallel()
	s := newRepeats()
	now := time.Now()
	for i := range 100 {
		s.put(now, requestDigest{uint64(i), 1}, repeated{until: now.Add(repeatsAge)})
		now = now.Add(repeatsAge / 10)
	}
	if n := len(s.known); n > 25 {
		t.Errorf("%d requests are known, of the last %s", n, 2*repeatsAge)
	}
}

// Whatever a finding says, a refusal from a template is byte for byte the one
// that its format would write.
func TestTemplatesWriteWhatTheirFormatWould(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"", "default", "a \"quoted\" <name>", "3987654", "4123456789", "policy 6"})
		f := &checkpb.Finding{
			Policy: text.Draw(t, "policy"), Detector: text.Draw(t, "detector"), LoopId: text.Draw(t, "loop"),
			Message: text.Draw(t, "message"), Fingerprint: []byte(text.Draw(t, "fingerprint")), Action: checkpb.Action_ACTION_REJECT,
			HitCount: rapid.Uint32().Draw(t, "count"), WindowSeconds: 60, CooldownSeconds: 30, BlockedMs: rapid.Uint32Min(1).Draw(t, "left"),
		}
		for _, p := range formats.All {
			tmpl := newTemplate(p, f, "caller")
			f.HitCount, f.BlockedMs = rapid.Uint32().Draw(t, "later count"), rapid.Uint32Min(1).Draw(t, "later left")
			if !tmpl.fits(f) {
				continue
			}
			want := p.Refusal(loopRefusal(f, "caller"))
			if got := tmpl.render(nil, f); !bytes.Equal(got, want) {
				t.Fatalf("%s: template wrote (-format +template):\n%s", p.Name(), cmp.Diff(string(want), string(got)))
			}
		}
	})
}

func TestUsualRefusalsHaveATemplate(t *testing.T) {
	t.Parallel()
	f := &checkpb.Finding{Policy: "default", Detector: "prompt", Fingerprint: []byte{1, 2}, LoopId: "x", HitCount: 6, WindowSeconds: 60, BlockedMs: 30_000, Action: checkpb.Action_ACTION_REJECT}
	for _, p := range formats.All {
		tmpl := newTemplate(p, f, "caller")
		if !tmpl.fits(f) {
			t.Errorf("%s: no template", p.Name())
			continue
		}
		if body := tmpl.render(nil, f); !json.Valid(body) || !strings.Contains(string(body), strconv.Itoa(6)) {
			t.Errorf("%s: %s", p.Name(), body)
		}
	}
	if other := (&checkpb.Finding{Policy: "other", BlockedMs: 1}); newTemplate(formats.All[0], f, "caller").fits(other) {
		t.Error("another policy's finding fits")
	}
}
