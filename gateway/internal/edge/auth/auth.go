// Package auth identifies the clients of the gateway: the holder of one of Unloop's own
// keys, or the subject of a token that an issuer signed.
//
// It does not know where a request carries its credential, or what a refusal looks like.
package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/unloop/unloop/gateway/internal/wire/jwks"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/kit/access"
)

// Reasons for which a client is refused.
var (
	ErrMissing     = errors.New("no credential")
	ErrWrong       = errors.New("credential is not accepted")
	ErrUnavailable = jwks.ErrUnavailable
)

// LimitedError means that an address sent too many wrong credentials; further ones are not
// checked for a while.
type LimitedError struct{ After time.Duration }

func (e *LimitedError) Error() string {
	return fmt.Sprintf("too many wrong credentials from this address; try again in %s", e.After)
}

// maxCredential is the size of the longest credential that is checked, in bytes. Tokens with
// many claims have a few thousand.
const maxCredential = 16 << 10

// Config says which clients are admitted.
type Config struct {
	// Sources are key:PLACE, a place as in access.Secret, and at most one jwt:URL, the URL of
	// an issuer's key set (RFC 7517).
	Sources []string
	// Issuer is the iss that tokens must have; any if it is empty.
	Issuer string
	// Audiences are names for this service; a token must have one of them.
	Audiences []string
	// TenantClaim names the claim with the client's tenant; "" for none.
	TenantClaim string
}

// Authenticator authenticates clients. Make it with New; Run keeps the issuer's keys up to
// date.
type Authenticator struct {
	keys    *access.Keys
	tokens  *tokens
	limiter access.Limiter
}

// New reads the keys. The error has every fault of the configuration.
func New(cfg Config, log *slog.Logger) (*Authenticator, error) {
	places, urls, faults := split(cfg.Sources)
	keys, err := access.ReadKeys(places)
	if err != nil {
		faults = append(faults, fmt.Errorf("--auth: %w", err))
	}
	a := &Authenticator{keys: keys}
	switch {
	case len(urls) > 1:
		faults = append(faults, errors.New("--auth: only one jwt:URL is allowed, because two issuers could name each other's subjects"))
	case len(urls) == 1:
		a.tokens, err = newTokens(urls[0], cfg, log)
		faults = append(faults, err)
	case cfg.Issuer != "" || len(cfg.Audiences) > 0 || cfg.TenantClaim != "":
		faults = append(faults, errors.New("--auth-issuer, --auth-audience and --auth-tenant-claim need --auth jwt:URL"))
	}
	return a, errors.Join(faults...)
}

func split(sources []string) (places, urls []string, faults []error) {
	for _, source := range sources {
		switch kind, rest, _ := strings.Cut(source, ":"); kind {
		case "key":
			places = append(places, rest)
		case "jwt":
			urls = append(urls, rest)
		default: // the text may be a key
			faults = append(faults, errors.New("--auth must look like key:env:VARIABLE, key:file:PATH or jwt:URL"))
		}
	}
	return places, urls, faults
}

// Run keeps the issuer's keys up to date until the context ends.
func (a *Authenticator) Run(ctx context.Context) error {
	if a.tokens != nil {
		a.tokens.keys.Run(ctx)
	}
	return nil
}

// KeysRead returns when the issuer's keys were read; zero if they never were. ok is false
// without an issuer.
func (a *Authenticator) KeysRead() (at time.Time, ok bool) {
	if a.tokens == nil {
		return time.Time{}, false
	}
	return a.tokens.keys.Read(), true
}

// Authenticate returns the client that presents a credential from the remote address
// "host:port" of a connection. Errors are ErrMissing, ErrWrong, ErrUnavailable or a
// LimitedError, or the context's.
func (a *Authenticator) Authenticate(ctx context.Context, remote, credential string) (request.Principal, error) {
	if credential == "" {
		return request.Principal{}, ErrMissing
	}
	attempt := access.NewAttempt(remote, credential, time.Now())
	if wait := a.limiter.Wait(attempt); wait > 0 {
		return request.Principal{}, &LimitedError{wait}
	}
	who, err := a.identify(ctx, credential)
	switch {
	case err == nil:
		a.limiter.Passed(attempt)
	case errors.Is(err, ErrWrong):
		a.limiter.Failed(attempt)
	}
	return who, err
}

func (a *Authenticator) identify(ctx context.Context, credential string) (request.Principal, error) {
	if len(credential) > maxCredential {
		return request.Principal{}, fmt.Errorf("%w: it has more than %d bytes", ErrWrong, maxCredential)
	}
	if id, ok := a.keys.Holder(credential); ok {
		return request.Principal{ID: "key:" + id}, nil
	}
	if a.tokens == nil {
		return request.Principal{}, fmt.Errorf("%w: it is none of the keys", ErrWrong)
	}
	return a.tokens.verify(ctx, credential)
}
