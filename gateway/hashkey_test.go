package gateway

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/unloop/unloop/gateway/internal/identity"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// hashes returns what each gateway makes of one name.
func hashes(gateways ...*Gateway) []string {
	out := make([]string, len(gateways))
	for i, g := range gateways {
		if hasher := g.hasher.Load(); hasher != nil {
			out[i] = hasher.Pseudonym("name")
		}
	}
	return out
}

// agree waits until all gateways hash as wanted, or, without that, alike and not
// as before.
func agree(t *testing.T, want, before string, gateways ...*Gateway) string {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		got := hashes(gateways...)
		same := len(slices.Compact(slices.Clone(got))) == 1
		if same && got[0] != "" && (got[0] == want || want == "" && got[0] != before) {
			return got[0]
		}
		if time.Now().After(deadline) {
			t.Fatalf("the gateways hash as %q, want all %q, not %q", got, want, before)
		}
		<-time.After(time.Millisecond)
	}
}

func TestGatewaysFollowTheKeyThatCallersAreHashedWith(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	old, young := following(t, s), following(t, s)
	run(t, old)
	run(t, young)
	first := agree(t, "", "", old, young)

	other := bytes.Repeat([]byte{7}, identity.KeySize)
	kv := bucket(t, s, schemas.BucketPolicies)
	_, err := kv.Put(t.Context(), schemas.KeyCallerHash, other)
	must(t, err)
	second := agree(t, identity.NewHasher([identity.KeySize]byte(other)).Pseudonym("name"), "", old, young)
	if second == first {
		t.Error("the gateways' own key was no secret")
	}

	_, err = kv.Put(t.Context(), schemas.KeyCallerHash, []byte("short"))
	must(t, err)
	must(t, kv.Delete(t.Context(), schemas.KeyCallerHash))
	third := agree(t, "", second, old, young)

	// A gateway that comes later hashes as the others do.
	late := following(t, s)
	run(t, late)
	agree(t, third, "", old, young, late)
}

// The state is lost under gateways that run: they write their key back, and one
// that starts afterwards takes it.
func TestAGatewayWritesTheKeyBackWhenTheStateIsLost(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	old := following(t, s)
	run(t, old)
	first := agree(t, "", "", old)
	go old.deps.NATS.Tend(t.Context(), s.Layout())
	must(t, s.JetStream().DeleteStream(t.Context(), "KV_"+schemas.BucketPolicies))
	for deadline := time.Now().Add(patience); ; {
		kv, err := s.JetStream().KeyValue(t.Context(), schemas.BucketPolicies)
		if err == nil {
			if _, err = kv.Get(t.Context(), schemas.KeyCallerHash); err == nil {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the key is not back: %v", err)
		}
		<-time.After(time.Millisecond)
	}
	young := following(t, s)
	run(t, young)
	agree(t, first, "", old, young)
}
