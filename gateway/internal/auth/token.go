package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// leeway is how much clocks may differ.
const leeway = 30 * time.Second

// maxTenant bounds a tenant's name, in bytes, as labels of headers are.
const maxTenant = 128

// algorithms are those of RFC 7518 and RFC 8037 with a public key. Symmetric
// ones would make everyone who can check a token able to sign one.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// tokens verifies JSON Web Tokens (RFC 7519) of one issuer.
type tokens struct {
	keys   *keySet
	parser *jwt.Parser
	tenant string
}

func newTokens(url string, cfg Config, deps Deps) (*tokens, error) {
	keys, err := newKeySet(url, deps)
	if len(cfg.Audiences) == 0 {
		err = errors.Join(err, errors.New("--auth jwt:URL needs --auth-audience: an issuer's tokens for other services must not open this one"))
	}
	if err != nil {
		return nil, err
	}
	opts := []jwt.ParserOption{
		jwt.WithValidMethods(algorithms), jwt.WithExpirationRequired(), jwt.WithAudience(cfg.Audiences...),
		jwt.WithLeeway(leeway), jwt.WithTimeFunc(deps.Now), jwt.WithJSONNumber(),
	}
	if cfg.Issuer != "" {
		opts = append(opts, jwt.WithIssuer(cfg.Issuer))
	}
	return &tokens{keys: keys, parser: jwt.NewParser(opts...), tenant: cfg.TenantClaim}, nil
}

// verify checks a token's signature and claims. Its errors tell nothing of the
// token but its kind of fault.
func (t *tokens) verify(ctx context.Context, text string) (Principal, error) {
	claims := jwt.MapClaims{}
	_, err := t.parser.ParseWithClaims(text, claims, func(token *jwt.Token) (any, error) { return t.keysFor(ctx, token) })
	switch {
	case errors.Is(err, ErrUnavailable):
		return Principal{}, ErrUnavailable
	case ctx.Err() != nil:
		return Principal{}, ctx.Err()
	case err != nil:
		return Principal{}, fmt.Errorf("%w: %s", ErrWrong, fault(err))
	}
	return t.principal(claims)
}

// keysFor finds the keys that may have signed a token.
func (t *tokens) keysFor(ctx context.Context, token *jwt.Token) (any, error) {
	if _, extended := token.Header["crit"]; extended { // RFC 7515, 4.1.11: none is understood here
		return nil, jwt.ErrTokenUnverifiable
	}
	id, _ := token.Header["kid"].(string)
	keys, err := t.keys.find(ctx, id, token.Method.Alg())
	if err != nil {
		return nil, err
	}
	set := jwt.VerificationKeySet{Keys: make([]jwt.VerificationKey, len(keys))}
	for i, key := range keys {
		set.Keys[i] = key
	}
	return set, nil
}

// faults are the kinds that an operator can do something about.
var faults = []error{
	jwt.ErrTokenExpired, jwt.ErrTokenNotValidYet, jwt.ErrTokenUsedBeforeIssued, jwt.ErrTokenInvalidAudience,
	jwt.ErrTokenInvalidIssuer, jwt.ErrTokenRequiredClaimMissing, jwt.ErrTokenSignatureInvalid, jwt.ErrTokenMalformed,
}

func fault(err error) string {
	for _, known := range faults {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return jwt.ErrTokenUnverifiable.Error()
}

// principal reads who a verified token is about.
func (t *tokens) principal(claims jwt.MapClaims) (Principal, error) {
	issuer, _ := claims["iss"].(string)
	subject, _ := claims["sub"].(string)
	if subject == "" {
		return Principal{}, fmt.Errorf("%w: token has no subject", ErrWrong)
	}
	// The length keeps issuer and subject apart.
	who := Principal{ID: "jwt:" + strconv.Itoa(len(issuer)) + ":" + issuer + subject}
	if t.tenant == "" {
		return who, nil
	}
	who.Tenant, who.Tenanted = tenantOf(claims[t.tenant])
	if !who.Tenanted {
		return Principal{}, fmt.Errorf("%w: token has no tenant", ErrWrong)
	}
	return who, nil
}

// tenantOf reads a tenant's name or number.
func tenantOf(claim any) (string, bool) {
	var name string
	switch v := claim.(type) {
	case string:
		name = v
	case json.Number:
		name = v.String()
	}
	return name, name != "" && len(name) <= maxTenant
}
