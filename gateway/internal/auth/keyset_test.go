package auth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// publisher answers with a key set, without a network, so that time can be a
// test's own.
type publisher struct {
	*issuer
	down bool
}

func (p *publisher) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	down := p.down
	p.mu.Unlock()
	if down {
		p.mu.Lock()
		p.fetches++
		p.mu.Unlock()
		return nil, errors.New("nobody is there")
	}
	w := &answer{header: http.Header{}}
	p.ServeHTTP(w, r)
	return &http.Response{StatusCode: http.StatusOK, Header: w.header, Body: io.NopCloser(strings.NewReader(w.text.String())), Request: r}, nil
}

func (p *publisher) setDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

func (p *publisher) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetches
}

type answer struct {
	header http.Header
	text   strings.Builder
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(p []byte) (int, error) { return a.text.Write(p) }
func (a *answer) WriteHeader(int)             {}

// follow runs an authenticator against a publisher within a bubble.
func follow(t *testing.T, p *publisher) *Authenticator {
	t.Helper()
	a, err := New(Config{Sources: []string{"jwt:https://issuer.example/keys"}, Audiences: []string{"unloop"}}, Deps{Client: &http.Client{Transport: p}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
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

// wait lets a bubble's time pass.
func wait(d time.Duration) { <-time.After(d) }

func TestNewKeyOfTheIssuerIsFoundWhenATokenNamesIt(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	next := newEC(t)
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{issuer: &issuer{keys: i.keys, status: http.StatusOK}}
		a := follow(t, p)
		token := func() string { return sign(t, "ES256", "next", next, claims(nil)) }
		if _, err := a.Authenticate(t.Context(), remote, token()); !errors.Is(err, ErrWrong) {
			t.Errorf("before it is published: %v", err)
		}
		p.publish("next", next)
		if _, err := a.Authenticate(t.Context(), remote, token()); !errors.Is(err, ErrWrong) || p.count() != 1 {
			t.Errorf("at once: %v after %d fetches; unknown keys must not make a gateway ask all the time", err, p.count())
		}
		wait(unknownEvery)
		if _, err := a.Authenticate(t.Context(), remote, token()); err != nil || p.count() != 2 {
			t.Errorf("later: %v after %d fetches", err, p.count())
		}
	})
}

func TestKeysHoldWhileTheIssuerIsAwayButNotForEver(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{issuer: &issuer{keys: i.keys, status: http.StatusOK}}
		a := follow(t, p)
		try := func() error {
			_, err := a.Authenticate(t.Context(), remote, sign(t, "EdDSA", "ed", i.keys["ed"], claims(nil)))
			return err
		}
		if err := try(); err != nil {
			t.Fatal(err)
		}
		p.setDown(true)
		before := p.count()
		wait(maxStale - time.Minute)
		if err := try(); err != nil {
			t.Errorf("within a day: %v", err)
		}
		if n := p.count() - before; n < 24*60/3 || n > 24*60*3 {
			t.Errorf("%d attempts in a day, want about one a minute", n)
		}
		wait(refresh + 2*time.Minute)
		if err := try(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("after more than a day: %v", err)
		}
		p.setDown(false)
		wait(2 * time.Minute)
		if err := try(); err != nil {
			t.Errorf("when it is back: %v", err)
		}
	})
}

func TestIssuerThatWasNeverThereIsUnavailableAndNobodysFailure(t *testing.T) {
	t.Parallel()
	ed := newEd(t)
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{issuer: &issuer{}, down: true}
		a := follow(t, p)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, err := a.Authenticate(t.Context(), remote, sign(t, "EdDSA", "ed", ed, claims(nil))); !errors.Is(err, ErrUnavailable) {
					t.Errorf("%v, want %v", err, ErrUnavailable)
				}
			})
		}
		all.Wait()
		if p.count() > 2 {
			t.Errorf("100 requests made %d fetches", p.count())
		}
	})
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
		"no keys":                       {`{"keys":[]}`, 0},
		"no JSON":                       {`<html>`, 0},
	} {
		keys, err := parseKeySet([]byte(c.set))
		if len(keys) != c.keys || (err == nil) != (c.keys > 0) {
			t.Errorf("%s: %d keys, %v; want %d", name, len(keys), err, c.keys)
		}
	}
}

func FuzzParseKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},null,{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := parseKeySet(data)
		for _, k := range keys {
			if err != nil || k.public == nil || len(k.algorithms) == 0 {
				t.Errorf("key %+v, %v", k, err)
			}
		}
	})
}
