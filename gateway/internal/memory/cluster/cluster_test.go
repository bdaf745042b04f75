package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/seal"
)

// waiting bounds what a test waits for; nothing healthy comes near it.
const waiting = 30 * time.Second

// gateway is what one gateway knows of its cluster.
type gateway struct {
	*Shared
	nats    *natskit.Conn
	bundles chan []byte
}

// follow follows a cluster until the test ends, and returns when all is loaded.
func follow(t *testing.T, s *natstest.Server, key *[identity.KeySize]byte) *gateway {
	t.Helper()
	g := &gateway{New(key, seal.Trust{}, time.Now, slog.New(slog.DiscardHandler)), s.Service(), make(chan []byte, 100)}
	ctx, cancel := context.WithCancel(context.Background())
	done, loaded := make(chan error, 1), make(chan struct{})
	go func() {
		done <- g.Follow(ctx, g.nats, s.Layout(), func(b []byte) { g.bundles <- b }, func() { close(loaded) })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-loaded:
	case <-time.After(waiting):
		t.Fatal("not loaded")
	}
	return g
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waiting); !holds(); {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
		<-time.After(time.Millisecond)
	}
}

func bucket(t *testing.T, s *natstest.Server, name string) jetstream.KeyValue {
	t.Helper()
	kv, err := s.JetStream().KeyValue(t.Context(), name)
	must(t, err)
	return kv
}

// agree waits until all gateways hash as wanted, or, without that, alike and not
// as before.
func agree(t *testing.T, want, before string, gateways ...*gateway) (agreed string) {
	t.Helper()
	eventually(t, "the gateways do not hash alike", func() bool {
		got := make([]string, len(gateways))
		for i, g := range gateways {
			if hasher := g.Hasher(); hasher != nil {
				got[i] = hasher.Pseudonym("name")
			}
		}
		agreed = got[0]
		return len(slices.Compact(got)) == 1 && agreed != "" && (agreed == want || want == "" && agreed != before)
	})
	return agreed
}

func TestGatewaysFollowTheKeyThatCallersAreHashedWith(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	old, young := follow(t, s, nil), follow(t, s, nil)
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
	late := follow(t, s, nil)
	agree(t, third, "", old, young, late)
}

// The state is lost under gateways that run: they write their key back, and one
// that starts afterwards takes it.
func TestAGatewayWritesTheKeyBackWhenTheStateIsLost(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	old := follow(t, s, nil)
	first := agree(t, "", "", old)
	go old.nats.Tend(t.Context(), s.Layout())
	must(t, s.JetStream().DeleteStream(t.Context(), "KV_"+schemas.BucketPolicies))
	eventually(t, "the key is not back", func() bool {
		kv, err := s.JetStream().KeyValue(t.Context(), schemas.BucketPolicies)
		if err == nil {
			_, err = kv.Get(t.Context(), schemas.KeyCallerHash)
		}
		return err == nil
	})
	young := follow(t, s, nil)
	agree(t, first, "", old, young)
}

func TestAConfiguredKeyOutranksTheClusters(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	key := [identity.KeySize]byte{1}
	own := identity.NewHasher(key).Pseudonym("name")
	g := follow(t, s, &key)
	agree(t, own, "", g)
	if _, err := bucket(t, s, schemas.BucketPolicies).Get(t.Context(), schemas.KeyCallerHash); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("a configured key was stored: %v", err)
	}
}

func TestBundlesAreHandedOnAsTheyArePushed(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	g := follow(t, s, nil)
	next := func() string {
		select {
		case b := <-g.bundles:
			return string(b)
		case <-time.After(waiting):
			t.Fatal("no bundle")
			return ""
		}
	}
	if b := next(); b != "" {
		t.Errorf("first bundle %q, want none", b)
	}
	kv := bucket(t, s, schemas.BucketPolicies)
	_, err := kv.Put(t.Context(), schemas.KeyBundle, []byte("a bundle"))
	must(t, err)
	if b := next(); b != "a bundle" {
		t.Errorf("pushed bundle %q", b)
	}
	must(t, kv.Delete(t.Context(), schemas.KeyBundle))
	if b := next(); b != "" {
		t.Errorf("bundle %q after it was deleted", b)
	}
}

// block is an override under its key.
func block(t *testing.T, tenant string) (key string, value []byte) {
	t.Helper()
	o := schemas.Override{Action: schemas.OverrideBlock, Scope: schemas.ScopeTenant, Value: tenant, ExpiresAt: time.Now().Add(time.Hour)}
	value, err := json.Marshal(o)
	must(t, err)
	return o.Key(), value
}

func TestOverridesAreFollowed(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	kv := bucket(t, s, schemas.BucketOverrides)
	put := func(tenant string) (key string) {
		key, value := block(t, tenant)
		_, err := kv.Put(t.Context(), key, value)
		must(t, err)
		return key
	}
	first := put("acme")
	_, err := kv.Put(t.Context(), "block.tenant.unreadable", []byte("{"))
	must(t, err)
	g := follow(t, s, nil)
	if all := g.Overrides(); len(all) != 1 || all[first].Value != "acme" {
		t.Errorf("at the beginning %v", all)
	}
	before := g.Overrides()
	second := put("globex")
	eventually(t, "the second override is not known", func() bool { return g.Overrides()[second].Value == "globex" })
	if len(before) != 1 {
		t.Error("what a request was given has changed")
	}
	must(t, kv.Delete(t.Context(), first))
	eventually(t, "the first override is still known", func() bool { return len(g.Overrides()) == 1 })
}

func TestReadTakesOverWhatIsSharedAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	js := s.JetStream()
	log := slog.New(slog.DiscardHandler)
	if _, err := New(nil, seal.Trust{}, time.Now, log).Read(t.Context(), js); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("without a key: %v", err)
	}
	policies := bucket(t, s, schemas.BucketPolicies)
	_, err := policies.Put(t.Context(), schemas.KeyCallerHash, []byte("short"))
	must(t, err)
	if _, err := New(nil, seal.Trust{}, time.Now, log).Read(t.Context(), js); !errors.Is(err, errBadKey) {
		t.Errorf("with a short key: %v", err)
	}
	key := bytes.Repeat([]byte{7}, identity.KeySize)
	_, err = policies.Put(t.Context(), schemas.KeyCallerHash, key)
	must(t, err)
	shared := New(nil, seal.Trust{}, time.Now, log)
	if bundle, err := shared.Read(t.Context(), js); err != nil || bundle != nil || len(shared.Overrides()) != 0 {
		t.Errorf("without a bundle: %q, %v", bundle, err)
	}
	_, err = policies.Put(t.Context(), schemas.KeyBundle, []byte("a bundle"))
	must(t, err)
	name, value := block(t, "acme")
	_, err = bucket(t, s, schemas.BucketOverrides).Put(t.Context(), name, value)
	must(t, err)
	bundle, err := shared.Read(t.Context(), js)
	if err != nil || string(bundle) != "a bundle" || len(shared.Overrides()) != 1 {
		t.Errorf("read %q and %v, %v", bundle, shared.Overrides(), err)
	}
	if got, want := shared.Hasher().Pseudonym("name"), identity.NewHasher([identity.KeySize]byte(key)).Pseudonym("name"); got != want {
		t.Errorf("hashes as %s, want %s", got, want)
	}
}

func TestReadNamesTheBucketThatIsMissing(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	shared := New(new([identity.KeySize]byte), seal.Trust{}, time.Now, slog.New(slog.DiscardHandler))
	for _, name := range []string{schemas.BucketOverrides, schemas.BucketPolicies} {
		must(t, s.JetStream().DeleteStream(t.Context(), "KV_"+name))
		if _, err := shared.Read(t.Context(), s.JetStream()); !errors.Is(err, jetstream.ErrBucketNotFound) || !bytes.Contains([]byte(err.Error()), []byte(name)) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestGatewaysWaitForABucketThatCantBeUsedYet(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	js, name := s.JetStream(), "KV_"+schemas.BucketOverrides
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{"elsewhere"}, Storage: jetstream.MemoryStorage})
	must(t, err)
	var noted bytes.Buffer
	tries := make(chan struct{}, 100)
	log := slog.New(slog.NewTextHandler(writer(func(p []byte) { noted.Write(p); tries <- struct{}{} }), &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := context.WithCancel(t.Context())
	done, loaded := make(chan error, 1), make(chan struct{})
	shared := New(new([identity.KeySize]byte), seal.Trust{}, time.Now, log)
	go func() { done <- shared.Follow(ctx, s.Service(), s.Layout(), func([]byte) {}, func() { close(loaded) }) }()
	<-tries
	must(t, js.DeleteStream(t.Context(), name))
	<-loaded
	if !bytes.Contains(noted.Bytes(), []byte("bucket cannot be followed")) {
		t.Errorf("logged %s", noted.String())
	}
	cancel()
	must(t, <-done)
}

// writer takes what is written, one line a call.
type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestAKeyThatCantBeStoredIsReported(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	if err := createKey(t.Context(), s.JetStream(), []byte("key"), nil); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("without a bucket: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k := &sharedKey{Shared: New(nil, seal.Trust{}, time.Now, slog.New(slog.DiscardHandler)), nats: s.Service()}
	k.stored = k.keys()
	if k.update(ctx, nil, true); k.Hasher() != nil {
		t.Error("a key that is not stored is used")
	}
}
