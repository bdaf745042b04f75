package descriptor

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/unloop/unloop/gateway/internal/wire/jwks"
	"github.com/unloop/unloop/schemas/policy"
)

// maxToken is the longest token that is read, in bytes. Issuers keep theirs
// below the 8 KiB that servers take as a header; a longer one has no claims.
const maxToken = 16 << 10

// claims are the claims of a token; values is nil if it can't be read.
type claims struct {
	values   map[string]any
	verified bool
}

// claim returns a claim of the request's bearer token.
func (v *Values) claim(name string) (Value, bool) {
	if v.claims == nil {
		read := v.reader.tokens.read(bearer(v.subject.HTTP.Header))
		v.claims = &read
	}
	text, ok := claimText(find(v.claims.values, name))
	return Value{Text: text, Unverified: !v.claims.verified}, ok
}

func bearer(h http.Header) string {
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// find looks a claim up by its name, or by a path of names with dots between.
func find(values map[string]any, name string) any {
	if value, ok := values[name]; ok {
		return value
	}
	first, rest, nested := strings.Cut(name, ".")
	if inner, ok := values[first].(map[string]any); ok && nested {
		return find(inner, rest)
	}
	return nil
}

// claimText returns a claim as text. Lists are joined; objects and nulls have no text.
func claimText(value any) (string, bool) {
	switch value := value.(type) {
	case string:
		return value, value != ""
	case json.Number:
		return value.String(), true
	case bool:
		return strconv.FormatBool(value), true
	case []any:
		parts := make([]string, 0, len(value))
		for _, one := range value {
			text, ok := claimText(one)
			if !ok {
				return "", false
			}
			parts = append(parts, text)
		}
		return strings.Join(parts, ","), len(parts) > 0
	default:
		return "", false
	}
}

// tokens reads and verifies bearer tokens.
type tokens struct {
	config *policy.JWT
	known  []knownKey
	remote *jwks.Follower // nil without a jwks_url
}

// knownKey is a key with its one algorithm, so that no token can have a public key taken
// for a shared secret.
type knownKey struct {
	id        string
	algorithm jose.SignatureAlgorithm
	key       any
}

func newTokens(config *policy.JWT, getenv func(string) string, client *http.Client) *tokens {
	t := &tokens{config: config}
	if config == nil {
		return t
	}
	for i := range config.Keys {
		k := &config.Keys[i]
		var key any
		if secret := getenv(k.SecretEnv); k.SecretEnv != "" && secret != "" {
			key = []byte(secret)
		} else if public, err := k.Public(); err == nil {
			key = public
		} else {
			continue // the bundle's checks reported it; an unset secret verifies nothing
		}
		t.known = append(t.known, knownKey{k.KeyID, jose.SignatureAlgorithm(k.Algorithm), key})
	}
	if config.JWKSURL != "" {
		t.remote = jwks.New(config.JWKSURL, client, slog.New(slog.DiscardHandler))
	}
	return t
}

// read returns a token's claims. Those of a token that does not verify are returned as
// unverified, or not at all if the bundle wants only verified ones.
func (t *tokens) read(token string) claims {
	parts := strings.Split(token, ".")
	if len(token) > maxToken || len(parts) != 3 {
		return claims{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return claims{}
	}
	c := claims{verified: t.verify(token)}
	if t.config != nil && t.config.RequireVerified && !c.verified {
		return claims{}
	}
	numbers := json.NewDecoder(bytes.NewReader(payload))
	numbers.UseNumber()
	if numbers.Decode(&c.values) != nil {
		return claims{}
	}
	return c
}

// algorithms are those that a bundle may name; none is not among them.
var algorithms = slices.Concat(jwks.Algorithms, []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512})

// verify reports whether a token's signature, time, issuer and audience hold.
func (t *tokens) verify(token string) bool {
	if t.config == nil {
		return false
	}
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return false
	}
	header := parsed.Headers[0]
	for _, k := range t.candidates(header.KeyID, jose.SignatureAlgorithm(header.Algorithm)) {
		var c jwt.Claims
		if parsed.Claims(k, &c) == nil {
			return t.accepts(c)
		}
	}
	return false
}

// candidates returns the keys that may have signed a token.
func (t *tokens) candidates(id string, algorithm jose.SignatureAlgorithm) []any {
	var keys []any
	for _, k := range t.known {
		if k.algorithm == algorithm && (k.id == "" || k.id == id) {
			keys = append(keys, k.key)
		}
	}
	if t.remote != nil {
		for _, k := range t.remote.Known(id, algorithm) {
			keys = append(keys, k)
		}
	}
	return keys
}

func (t *tokens) accepts(c jwt.Claims) bool {
	expected := jwt.Expected{Time: time.Now(), AnyAudience: jwt.Audience(t.config.Audiences)}
	if c.ValidateWithLeeway(expected, time.Duration(t.config.LeewaySeconds)*time.Second) != nil {
		return false
	}
	return len(t.config.Issuers) == 0 || slices.Contains(t.config.Issuers, c.Issuer)
}
