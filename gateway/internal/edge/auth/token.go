package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/unloop/unloop/gateway/internal/wire/jwks"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/kit/access"
)

// leeway is the tolerated difference between clocks.
const leeway = 30 * time.Second

// maxTenant bounds a tenant's name, in bytes, as labels of headers are.
const maxTenant = 128

// tokens verifies JSON Web Tokens (RFC 7519) of one issuer.
type tokens struct {
	keys *jwks.Follower
	cfg  Config
}

func newTokens(address string, cfg Config, log *slog.Logger) (*tokens, error) {
	err := checkURL(address)
	if len(cfg.Audiences) == 0 {
		err = errors.Join(err, errors.New("--auth jwt:URL needs --auth-audience: an issuer's tokens for other services must not open this one"))
	}
	if err != nil {
		return nil, err
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &tokens{keys: jwks.New(address, client, log), cfg: cfg}, nil
}

func checkURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return errors.New("--auth jwt:URL: the URL can't be read")
	case u.User != nil:
		return errors.New("--auth jwt:URL: the URL must have no user")
	case u.Scheme != "https" && (u.Scheme != "http" || !access.Loopback(u.Hostname())):
		return errors.New("--auth jwt:URL: the URL must begin with https://, because anybody who can change the keys can sign tokens")
	}
	return nil
}

// verify checks a token's signature and claims. Its errors name the kind of fault, and
// quote nothing of the token.
func (t *tokens) verify(ctx context.Context, text string) (request.Principal, error) {
	token, err := jwt.ParseSigned(text, jwks.Algorithms)
	if err != nil || len(token.Headers) != 1 {
		return request.Principal{}, fmt.Errorf("%w: it is neither a key nor a signed token", ErrWrong)
	}
	header := token.Headers[0]
	keys, err := t.keys.Find(ctx, header.KeyID, jose.SignatureAlgorithm(header.Algorithm))
	if err != nil {
		return request.Principal{}, err
	}
	for _, k := range keys {
		var standard jwt.Claims
		var all map[string]json.RawMessage
		if token.Claims(k, &standard, &all) == nil {
			return t.accept(standard, all)
		}
	}
	return request.Principal{}, fmt.Errorf("%w: no key of the issuer has signed the token", ErrWrong)
}

// accept returns the subject of a signed token that is for this service and valid now.
func (t *tokens) accept(c jwt.Claims, all map[string]json.RawMessage) (request.Principal, error) {
	refused := func(why string) (request.Principal, error) {
		return request.Principal{}, fmt.Errorf("%w: token %s", ErrWrong, why)
	}
	expected := jwt.Expected{Time: time.Now(), Issuer: t.cfg.Issuer, AnyAudience: jwt.Audience(t.cfg.Audiences)}
	switch err := c.ValidateWithLeeway(expected, leeway); {
	case errors.Is(err, jwt.ErrExpired):
		return refused("has expired")
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return refused("is not valid yet")
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return refused("is of another issuer")
	case err != nil:
		return refused("is for another audience")
	case c.Expiry == nil:
		return refused("never expires")
	case c.Subject == "":
		return refused("has no subject")
	}
	// The length keeps issuer and subject apart.
	who := request.Principal{ID: "jwt:" + strconv.Itoa(len(c.Issuer)) + ":" + c.Issuer + c.Subject}
	if t.cfg.TenantClaim == "" {
		return who, nil
	}
	if who.Tenant, who.Tenanted = tenantOf(all[t.cfg.TenantClaim]); !who.Tenanted {
		return refused("has no tenant")
	}
	return who, nil
}

// tenantOf reads a tenant's name or number.
func tenantOf(claim json.RawMessage) (string, bool) {
	var name string
	if json.Unmarshal(claim, &name) != nil {
		var number json.Number
		if json.Unmarshal(claim, &number) != nil {
			return "", false
		}
		name = number.String()
	}
	return name, name != "" && len(name) <= maxTenant
}
