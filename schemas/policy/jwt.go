package policy

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// JWT says how a bearer token is verified. Without keys the claims of jwt: descriptors
// are marked as unverified.
type JWT struct {
	JWKSURL         string   `json:"jwks_url,omitempty" check:"https" doc:"Address of the issuer's keys (https)."`
	Keys            []JWTKey `json:"keys,omitempty" doc:"Static keys."`
	Issuers         Strings  `json:"issuers,omitempty" check:"nonempty" doc:"Accepted issuers. Default: any."`
	Audiences       Strings  `json:"audiences,omitempty" check:"nonempty" doc:"Accepted audiences. Default: any."`
	LeewaySeconds   int      `json:"leeway_seconds" check:"min=0,max=3600" default:"60" doc:"Allowed clock difference, in seconds."`
	RequireVerified bool     `json:"require_verified,omitempty" doc:"Ignores the claims of unverified tokens."`
}

// JWTKey is one key that tokens may be signed with. Secrets stay out of the
// bundle: an HMAC key names the environment variable that holds it.
type JWTKey struct {
	KeyID     string `json:"kid,omitempty" doc:"Key id (kid). A key without one is tried for every token."`
	Algorithm string `json:"alg" check:"required,one=RS256|RS384|RS512|PS256|PS384|PS512|ES256|ES384|ES512|EdDSA|HS256|HS384|HS512" doc:"Algorithm that the key is for."`
	PublicKey string `json:"public_key,omitempty" doc:"Public key as PEM (PKIX)."`
	SecretEnv string `json:"secret_env,omitempty" doc:"Environment variable with the secret, for HS algorithms."`
}

// Public parses PublicKey and checks that it fits the algorithm. It returns *rsa.PublicKey,
// *ecdsa.PublicKey or ed25519.PublicKey.
func (k *JWTKey) Public() (crypto.PublicKey, error) {
	block, _ := pem.Decode([]byte(k.PublicKey))
	if block == nil {
		return nil, errors.New("must be a public key in PEM")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("must be a PKIX public key: %w", err)
	}
	if !k.fits(key) {
		return nil, fmt.Errorf("is a %T, which is no key for %s", key, k.Algorithm)
	}
	return key, nil
}

// symmetric reports whether the key is a shared secret.
func (k *JWTKey) symmetric() bool { return strings.HasPrefix(k.Algorithm, "HS") }

func (k *JWTKey) fits(key crypto.PublicKey) bool {
	switch key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(k.Algorithm, "RS") || strings.HasPrefix(k.Algorithm, "PS")
	case *ecdsa.PublicKey:
		return strings.HasPrefix(k.Algorithm, "ES")
	case ed25519.PublicKey:
		return k.Algorithm == "EdDSA"
	default:
		return false
	}
}
