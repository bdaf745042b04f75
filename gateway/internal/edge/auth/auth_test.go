package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unloop/unloop/gateway/internal/wire/jwks"
	"github.com/unloop/unloop/gateway/internal/wire/request"
)

const (
	ownKey = "uk-0123456789abcdef"
	remote = "192.0.2.1:5000"
)

// issuer signs tokens and publishes its keys.
type issuer struct {
	url    string
	mu     sync.Mutex
	keys   map[string]crypto.Signer
	status int
}

// newIssuer publishes an RSA key "rs", an elliptic key "es" and an Edwards key
// "ed".
func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{keys: map[string]crypto.Signer{"rs": newRSA(t), "es": newEC(t), "ed": newEd(t)}, status: http.StatusOK}
	server := httptest.NewServer(i)
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

func newRSA(t *testing.T) crypto.Signer {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newEC(t *testing.T) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newEd(t *testing.T) crypto.Signer {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.status != http.StatusOK {
		w.WriteHeader(i.status)
		return
	}
	var keys []map[string]string
	for id, k := range i.keys {
		keys = append(keys, published(id, k))
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"keys": keys})
}

// RoundTrip answers without a network.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	return w.Result(), nil
}

func (i *issuer) setStatus(status int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.status = status
}

func (i *issuer) publish(id string, k crypto.Signer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys[id] = k
}

func published(id string, k crypto.Signer) map[string]string {
	enc := base64.RawURLEncoding.EncodeToString
	switch p := k.Public().(type) {
	case *rsa.PublicKey:
		return map[string]string{"kty": "RSA", "kid": id, "use": "sig", "alg": "RS256", "n": enc(p.N.Bytes()), "e": enc(big.NewInt(int64(p.E)).Bytes())}
	case *ecdsa.PublicKey:
		point, _ := p.Bytes()
		return map[string]string{"kty": "EC", "kid": id, "crv": "P-256", "x": enc(point[1:33]), "y": enc(point[33:])}
	case ed25519.PublicKey:
		return map[string]string{"kty": "OKP", "kid": id, "crv": "Ed25519", "x": enc(p)}
	}
	return nil
}

// claims are those of a good token, with changes; nil removes one.
func claims(changes map[string]any) map[string]any {
	c := map[string]any{
		"iss": "https://issuer.example", "sub": "alice", "aud": "unloop", "tenant": "acme",
		"exp": time.Now().Add(time.Hour).Unix(), "nbf": time.Now().Add(-time.Hour).Unix(),
	}
	for name, value := range changes {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

// sign makes a token by hand, so that bad ones can be made too.
func sign(t *testing.T, algorithm, id string, k crypto.Signer, claims map[string]any, extra ...map[string]any) string {
	t.Helper()
	header := map[string]any{"alg": algorithm, "typ": "JWT"}
	if id != "" {
		header["kid"] = id
	}
	for _, e := range extra {
		maps.Copy(header, e)
	}
	text := encoded(t, header) + "." + encoded(t, claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature(t, algorithm, k, text))
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

func signature(t *testing.T, algorithm string, k crypto.Signer, text string) []byte {
	t.Helper()
	hash := sha256.Sum256([]byte(text))
	var sum []byte
	var err error
	switch algorithm {
	case "RS256":
		sum, err = k.Sign(rand.Reader, hash[:], crypto.SHA256)
	case "PS256":
		sum, err = k.Sign(rand.Reader, hash[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256})
	case "ES256":
		var r, s *big.Int
		if r, s, err = ecdsa.Sign(rand.Reader, k.(*ecdsa.PrivateKey), hash[:]); err == nil {
			sum = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
		}
	case "EdDSA":
		sum, err = k.Sign(rand.Reader, []byte(text), crypto.Hash(0))
	}
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// signHMAC signs with a shared secret.
func signHMAC(t *testing.T, id string, secret []byte, claims map[string]any) string {
	t.Helper()
	text := encoded(t, map[string]any{"alg": "HS256", "kid": id}) + "." + encoded(t, claims)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// authenticator runs one that takes ownKey and the issuer's tokens.
func authenticator(t *testing.T, i *issuer, edits ...func(*Config)) *Authenticator {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(ownKey), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Sources: []string{"key:file:" + file, "jwt:" + i.url}, Issuer: "https://issuer.example",
		Audiences: []string{"unloop", "unloop-staging"}, TenantClaim: "tenant",
	}
	for _, edit := range edits {
		edit(&cfg)
	}
	a, err := New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return a
}

func TestTokensOfEveryAlgorithmAndKeysAreAccepted(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	a := authenticator(t, i)
	ids := map[string]bool{}
	for name, c := range map[string]struct {
		credential string
		want       request.Principal
	}{
		"a key":                    {ownKey, request.Principal{}},
		"RS256":                    {sign(t, "RS256", "rs", i.keys["rs"], claims(nil)), request.Principal{Tenant: "acme", Tenanted: true}},
		"ES256":                    {sign(t, "ES256", "es", i.keys["es"], claims(map[string]any{"sub": "bob"})), request.Principal{Tenant: "acme", Tenanted: true}},
		"EdDSA":                    {sign(t, "EdDSA", "ed", i.keys["ed"], claims(map[string]any{"sub": "carol"})), request.Principal{Tenant: "acme", Tenanted: true}},
		"a numbered tenant, no id": {sign(t, "ES256", "", i.keys["es"], claims(map[string]any{"sub": "dave", "tenant": 42})), request.Principal{Tenant: "42", Tenanted: true}},
		"one audience of several":  {sign(t, "ES256", "es", i.keys["es"], claims(map[string]any{"sub": "erin", "aud": []string{"other", "unloop-staging"}})), request.Principal{Tenant: "acme", Tenanted: true}},
	} {
		who, err := a.Authenticate(t.Context(), remote, c.credential)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ids[who.ID] = true
		if who.ID == "" || strings.Contains(who.ID, c.credential) {
			t.Errorf("%s: id %q", name, who.ID)
		}
		if who.ID = ""; who != c.want {
			t.Errorf("%s: %+v, want %+v", name, who, c.want)
		}
	}
	if len(ids) != 6 {
		t.Errorf("6 clients have %d ids", len(ids))
	}
}

func TestBadTokensAreRefused(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	a := authenticator(t, i)
	es := func(changes map[string]any) string {
		return sign(t, "ES256", "es", i.keys["es"], claims(changes))
	}
	good, address := es(nil), 0
	der, err := x509.MarshalPKIXPublicKey(i.keys["rs"].Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	for name, token := range map[string]string{
		"no algorithm":                    sign(t, "none", "es", nil, claims(nil)),
		"the public key as a secret":      signHMAC(t, "rs", public, claims(nil)),
		"another key under a known id":    sign(t, "ES256", "es", newEC(t), claims(nil)),
		"an unknown key":                  sign(t, "ES256", "zz", newEC(t), claims(nil)),
		"an algorithm the key is not for": sign(t, "PS256", "rs", i.keys["rs"], claims(nil)),
		"an extension that is critical":   sign(t, "ES256", "es", i.keys["es"], claims(nil), map[string]any{"crit": []string{"b64"}, "b64": false}),
		"expired":                         es(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}),
		"without an end":                  es(map[string]any{"exp": nil}),
		"not valid yet":                   es(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"another audience":                es(map[string]any{"aud": "elsewhere"}),
		"no audience":                     es(map[string]any{"aud": nil}),
		"another issuer":                  es(map[string]any{"iss": "https://evil.example"}),
		"no subject":                      es(map[string]any{"sub": nil}),
		"no tenant":                       es(map[string]any{"tenant": nil}),
		"a tenant that is a list":         es(map[string]any{"tenant": []string{"acme"}}),
		"a tenant that is endless":        es(map[string]any{"tenant": strings.Repeat("a", maxTenant+1)}),
		"a changed signature":             good[:len(good)-8] + "AAAAAAAA",
		"no signature":                    good[:strings.LastIndexByte(good, '.')+1],
		"two parts":                       good[:strings.LastIndexByte(good, '.')],
		"a megabyte":                      es(map[string]any{"big": strings.Repeat("x", 1<<20)}),
		"text":                            "not a token at all",
		"bytes that are no text":          "\xff.\xfe.\x00",
	} {
		address++ // the limit has a test of its own
		_, err := a.Authenticate(t.Context(), fmt.Sprintf("192.0.2.%d:1", address), token)
		if !errors.Is(err, ErrWrong) {
			t.Errorf("%s: %v, want %v", name, err, ErrWrong)
		} else if strings.Contains(err.Error(), token) {
			t.Errorf("%s: the error quotes the token", name)
		}
	}
	if _, err := a.Authenticate(t.Context(), remote, ""); !errors.Is(err, ErrMissing) {
		t.Errorf("no credential: %v", err)
	}
}

func TestAddressWithManyWrongCredentialsMustWait(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	a := authenticator(t, i)
	token := sign(t, "EdDSA", "ed", i.keys["ed"], claims(nil))
	if _, err := a.Authenticate(t.Context(), remote, ownKey); err != nil {
		t.Fatal(err)
	}
	var limited *LimitedError
	for n := 0; limited == nil; n++ {
		if _, err := a.Authenticate(t.Context(), remote, "guess"); !errors.As(err, &limited) && !errors.Is(err, ErrWrong) || n > 100 {
			t.Fatalf("guess %d: %v", n, err)
		}
	}
	if limited.After <= 0 {
		t.Errorf("must wait for %s", limited.After)
	}
	if _, err := a.Authenticate(t.Context(), remote, token); !errors.As(err, &limited) {
		t.Errorf("a credential that was never used from here: %v", err)
	}
	if _, err := a.Authenticate(t.Context(), remote, ownKey); err != nil {
		t.Errorf("a key that is in use here: %v", err)
	}
	if _, err := a.Authenticate(t.Context(), "198.51.100.7:1", token); err != nil {
		t.Errorf("from elsewhere: %v", err)
	}
}

// A new key is accepted once the issuer publishes it; an issuer that is away is nobody's
// failure, and does not end what its known keys vouch for.
func TestTokensFollowTheIssuersKeys(t *testing.T) {
	t.Parallel()
	i, next := newIssuer(t), newEC(t)
	synctest.Test(t, func(t *testing.T) {
		a, err := New(Config{Sources: []string{"jwt:https://issuer.example/keys"}, Audiences: []string{"unloop"}}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		a.tokens.keys = jwks.New("https://issuer.example/keys", &http.Client{Transport: i}, slog.New(slog.DiscardHandler))
		try := func(algorithm, id string, k crypto.Signer) error {
			_, err := a.Authenticate(t.Context(), remote, sign(t, algorithm, id, k, claims(nil)))
			return err
		}
		i.setStatus(http.StatusServiceUnavailable)
		for range 100 {
			if err := try("EdDSA", "ed", i.keys["ed"]); !errors.Is(err, ErrUnavailable) {
				t.Fatalf("before the keys are known: %v", err)
			}
		}
		if at, ok := a.KeysRead(); !ok || !at.IsZero() {
			t.Errorf("the keys were read at %v (%v), want never", at, ok)
		}
		i.setStatus(http.StatusOK)
		<-time.After(time.Minute)
		if err := try("ES256", "next", next); !errors.Is(err, ErrWrong) {
			t.Errorf("before it is published: %v", err)
		}
		i.publish("next", next)
		<-time.After(time.Minute)
		if err := try("ES256", "next", next); err != nil {
			t.Errorf("a new key: %v", err)
		}
		if at, _ := a.KeysRead(); !at.Equal(time.Now()) {
			t.Errorf("the keys were read at %v, want now", at)
		}
		i.setStatus(http.StatusServiceUnavailable)
		<-time.After(time.Hour)
		if err := try("EdDSA", "ed", i.keys["ed"]); err != nil {
			t.Errorf("while the issuer is away: %v", err)
		}
	})
}

func TestFaultsOfTheConfigurationAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"a key in the flag":        {Config{Sources: []string{ownKey}}, "key:env:VARIABLE"},
		"a missing variable":       {Config{Sources: []string{"key:env:AUTH_TEST_NONE"}}, "AUTH_TEST_NONE"},
		"no audience":              {Config{Sources: []string{"jwt:https://issuer.example/keys"}}, "--auth-audience"},
		"a URL that is none":       {Config{Sources: []string{"jwt:https://%zz"}, Audiences: []string{"a"}}, "can't be read"},
		"keys over plain HTTP":     {Config{Sources: []string{"jwt:http://issuer.example/keys"}, Audiences: []string{"a"}}, "https://"},
		"a password in the URL":    {Config{Sources: []string{"jwt:https://u:pw@issuer.example/keys"}, Audiences: []string{"a"}}, "no user"},
		"two issuers":              {Config{Sources: []string{"jwt:https://a.example/k", "jwt:https://b.example/k"}, Audiences: []string{"a"}}, "one jwt:URL"},
		"an audience of no tokens": {Config{Audiences: []string{"a"}}, "need --auth jwt:URL"},
	} {
		_, err := New(c.cfg, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), ownKey) || strings.Contains(err.Error(), "pw@") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
