package jwks

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// issuer publishes a key set without a network, so that time can be a test's own.
type issuer struct {
	mu     sync.Mutex
	keys   map[string]crypto.PublicKey
	broken func() (status int, body io.Reader, err error) // answers instead, if not nil
	reads  int
}

func (i *issuer) RoundTrip(*http.Request) (*http.Response, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.reads++
	if i.broken != nil {
		status, body, err := i.broken()
		return &http.Response{StatusCode: status, Body: io.NopCloser(body)}, err
	}
	var set jose.JSONWebKeySet
	for id, k := range i.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k, KeyID: id})
	}
	body, err := json.Marshal(set)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body))}, err
}

func (i *issuer) publish(id string, k crypto.PublicKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys[id] = k
}

func (i *issuer) breakDown(broken func() (int, io.Reader, error)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.broken = broken
}

func (i *issuer) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.reads
}

func away() (int, io.Reader, error) { return 0, http.NoBody, errors.New("nobody is there") }

// follower follows an issuer without Run.
func follower(i *issuer) *Follower {
	return New("https://issuer.example/keys", &http.Client{Transport: i}, slog.New(slog.DiscardHandler))
}

// run runs a follower until the test ends.
func run(t *testing.T, f *Follower) *Follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

func newEd(t *testing.T) ed25519.PublicKey {
	t.Helper()
	k, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// wait lets a bubble's time pass.
func wait(d time.Duration) { <-time.After(d) }

// found asks for an Edwards key, and says what comes of it.
func found(t *testing.T, f *Follower, id string) string {
	t.Helper()
	keys, err := f.Find(t.Context(), id, jose.EdDSA)
	switch {
	case errors.Is(err, ErrUnavailable) && len(keys) == 0:
		return "unavailable"
	case err != nil || len(keys) > 1:
		t.Errorf("%s: %d keys, %v", id, len(keys), err)
	case len(keys) == 1:
		return "found"
	}
	return "unknown"
}

func TestNewKeyOfTheIssuerIsFoundWhenATokenNamesIt(t *testing.T) {
	t.Parallel()
	ed := newEd(t)
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{keys: map[string]crypto.PublicKey{"old": ed}}
		f := run(t, follower(i))
		if got := found(t, f, "next"); got != "unknown" {
			t.Errorf("before it is published: %s", got)
		}
		i.publish("next", ed)
		if got := found(t, f, "next"); got != "unknown" || i.count() != 1 {
			t.Errorf("at once: %s after %d reads; unknown keys must not cause many", got, i.count())
		}
		wait(unknownEvery)
		if got := found(t, f, "next"); got != "found" || i.count() != 2 {
			t.Errorf("later: %s after %d reads", got, i.count())
		}
	})
}

func TestKeysHoldWhileTheIssuerIsAwayButNotForEver(t *testing.T) {
	t.Parallel()
	ed := newEd(t)
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{keys: map[string]crypto.PublicKey{"ed": ed}}
		f := run(t, follower(i))
		if got := found(t, f, "ed"); got != "found" {
			t.Fatal(got)
		}
		i.breakDown(away)
		before := i.count()
		wait(maxStale - time.Minute)
		if got := found(t, f, "ed"); got != "found" {
			t.Errorf("within a day: %s", got)
		}
		if n := i.count() - before; n < 24*60/3 || n > 24*60*3 {
			t.Errorf("%d attempts in a day, want about one a minute", n)
		}
		wait(refresh + 2*time.Minute)
		if got := found(t, f, "ed"); got != "unavailable" {
			t.Errorf("after more than a day: %s", got)
		}
		i.breakDown(nil)
		wait(2 * time.Minute)
		if got := found(t, f, "ed"); got != "found" {
			t.Errorf("when it is back: %s", got)
		}
	})
}

func TestIssuerThatWasNeverThereIsUnavailableAndAskedSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{broken: away}
		f := run(t, follower(i))
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if got := found(t, f, "ed"); got != "unavailable" {
					t.Error(got)
				}
			})
		}
		all.Wait()
		if i.count() > 2 {
			t.Errorf("100 requests made %d reads", i.count())
		}
	})
}

func TestKnownKeysAreReadInTheBackground(t *testing.T) {
	t.Parallel()
	ed := newEd(t)
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{keys: map[string]crypto.PublicKey{"ed": ed}}
		f := follower(i)
		for _, step := range []struct {
			after time.Duration
			id    string
			known int
			reads int // once those that the look-up causes are over
		}{
			{0, "ed", 0, 1},
			{0, "ed", 1, 1},
			{0, "next", 0, 1},
			{unknownEvery, "next", 0, 2},
			{unknownEvery, "ed", 1, 2},
			{refresh, "ed", 1, 3},
		} {
			wait(step.after)
			got := len(f.Known(step.id, jose.EdDSA))
			synctest.Wait()
			if got != step.known || i.count() != step.reads {
				t.Errorf("%s after %s: %d keys, %d reads; want %d and %d", step.id, step.after, got, i.count(), step.known, step.reads)
			}
		}
	})
}

func TestAnIssuerThatDoesNotAnswerIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{broken: func() (int, io.Reader, error) { wait(2 * maxWait); return away() }}
		began := time.Now()
		if got := found(t, follower(i), "ed"); got != "unavailable" || time.Since(began) != maxWait {
			t.Errorf("%s after %s", got, time.Since(began))
		}
		wait(2 * maxWait) // the attempt ends
	})
}

func TestOnlyAKeySetIsTaken(t *testing.T) {
	t.Parallel()
	answer := func(status int, body io.Reader) func() (int, io.Reader, error) {
		return func() (int, io.Reader, error) { return status, body, nil }
	}
	for name, broken := range map[string]func() (int, io.Reader, error){
		"not found": answer(http.StatusNotFound, strings.NewReader(`{"keys":[]}`)),
		"a page":    answer(http.StatusOK, strings.NewReader(`<html>`)),
		"too long":  answer(http.StatusOK, strings.NewReader(`{"keys":[`+strings.Repeat(" ", maxKeySet))),
		"cut off":   answer(http.StatusOK, io.MultiReader(strings.NewReader(`{"keys":[`), failing{})),
	} {
		if got := found(t, follower(&issuer{broken: broken}), "ed"); got != "unavailable" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := found(t, New("https://a\x00", http.DefaultClient, slog.New(slog.DiscardHandler)), "ed"); got != "unavailable" {
		t.Errorf("a URL that is none: %s", got)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestAlgorithmsOfAKey(t *testing.T) {
	t.Parallel()
	curve := func(c elliptic.Curve) crypto.PublicKey {
		k, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k.Public()
	}
	large, err := rsa.GenerateKey(rand.Reader, minModulus)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key  any
		want []jose.SignatureAlgorithm
	}{
		"RSA":      {large.Public(), []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}},
		"P-256":    {curve(elliptic.P256()), []jose.SignatureAlgorithm{jose.ES256}},
		"P-384":    {curve(elliptic.P384()), []jose.SignatureAlgorithm{jose.ES384}},
		"P-521":    {curve(elliptic.P521()), []jose.SignatureAlgorithm{jose.ES512}},
		"P-224":    {curve(elliptic.P224()), nil},
		"Edwards":  {newEd(t), []jose.SignatureAlgorithm{jose.EdDSA}},
		"a secret": {[]byte("secret"), nil},
		"private":  {large, nil},
	} {
		if got := algorithmsOf(c.key); len(got) != len(c.want) || len(got) > 0 && got[0] != c.want[0] {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestAKeyFitsTokensOfItsIDAndAlgorithm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, token string
		algorithm  jose.SignatureAlgorithm
		want       bool
	}{
		{"a", "a", jose.EdDSA, true}, {"a", "", jose.EdDSA, true}, {"", "b", jose.EdDSA, true}, {"a", "b", jose.EdDSA, false}, {"a", "a", jose.ES256, false},
	} {
		if got := (key{id: c.key, algorithms: []jose.SignatureAlgorithm{jose.EdDSA}}).fits(c.token, c.algorithm); got != c.want {
			t.Errorf("key %q, token %q by %s: %v", c.key, c.token, c.algorithm, got)
		}
	}
}

func TestKeySetsAreReadWithCare(t *testing.T) {
	t.Parallel()
	const ed = `{"kty":"OKP","kid":"a","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`
	for name, c := range map[string]struct {
		set  string
		keys int
	}{
		"one key":                       {`{"keys":[` + ed + `]}`, 1},
		"beside one of an unknown kind": {`{"keys":[{"kty":"oct","k":"AAAA"},` + ed + `,{"kty":7}]}`, 1},
		"for encryption":                {`{"keys":[{"kty":"OKP","use":"enc","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`, 0},
		"a small modulus":               {`{"keys":[{"kty":"RSA","n":"u1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gunVTLw7onLRnrq0_Iz","e":"AQAB"}]}`, 0},
		"a point beside the curve":      {`{"keys":[{"kty":"EC","crv":"P-256","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE","y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE"}]}`, 0},
		"a short coordinate":            {`{"keys":[{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ"}]}`, 0},
		"an algorithm of another kind":  {`{"keys":[{"kty":"OKP","alg":"HS256","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`, 0},
		"its own algorithm":             {`{"keys":[{"kty":"OKP","alg":"EdDSA","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`, 1},
		"no keys":                       {`{"keys":[]}`, 0},
		"no JSON":                       {`<html>`, 0},
	} {
		keys, err := parse([]byte(c.set))
		if len(keys) != c.keys || (err == nil) != (c.keys > 0) {
			t.Errorf("%s: %d keys, %v; want %d", name, len(keys), err, c.keys)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},null,{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := parse(data)
		for _, k := range keys {
			if err != nil || k.public == nil || len(k.algorithms) == 0 {
				t.Errorf("key %+v, %v", k, err)
			}
		}
	})
}
