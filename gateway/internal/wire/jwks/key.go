package jwks

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// Algorithms are those of RFC 7518 and RFC 8037 with a public key. With a symmetric one,
// every service that checks tokens could sign them.
var Algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// Sizes of RSA moduli, in bits: NIST SP 800-131A wants 2048; the upper bound
// limits the work for a signature.
const (
	minModulus = 2048
	maxModulus = 8192
)

// key is one public key of an issuer.
type key struct {
	id string
	// algorithms are those that it may be used with.
	algorithms []jose.SignatureAlgorithm
	public     crypto.PublicKey
}

// fits reports whether the key may have signed a token with a key id, or without one, by an
// algorithm.
func (k key) fits(id string, algorithm jose.SignatureAlgorithm) bool {
	return (id == "" || k.id == "" || id == k.id) && slices.Contains(k.algorithms, algorithm)
}

// parse reads a key set (RFC 7517). Keys of other kinds or uses are skipped, as the RFC
// requires; a set without a usable key is an error.
func parse(data []byte) ([]key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("parse key set: %w", err)
	}
	var keys []key
	var faults []error
	for _, raw := range set.Keys {
		k, err := parseKey(raw)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("key set has no usable key: %w", errors.Join(faults...))
	}
	return keys, nil
}

func parseKey(raw []byte) (key, error) {
	var w jose.JSONWebKey
	if err := json.Unmarshal(raw, &w); err != nil {
		return key{}, fmt.Errorf("parse key: %w", err)
	}
	k := key{id: w.KeyID, algorithms: algorithmsOf(w.Key), public: w.Key}
	switch {
	case w.Use != "" && w.Use != "sig":
		return key{}, fmt.Errorf("key %q is not for signatures", w.KeyID)
	case len(k.algorithms) == 0 || !w.Valid():
		return key{}, fmt.Errorf("key %q is no public key for signatures, or too weak", w.KeyID)
	case w.Algorithm == "":
		return k, nil
	case !slices.Contains(k.algorithms, jose.SignatureAlgorithm(w.Algorithm)):
		return key{}, fmt.Errorf("key %q is not for its algorithm %q", w.KeyID, w.Algorithm)
	}
	k.algorithms = []jose.SignatureAlgorithm{jose.SignatureAlgorithm(w.Algorithm)}
	return k, nil
}

// algorithmsOf lists the algorithms of a public key; none if it is of another kind, or too
// weak.
func algorithmsOf(public any) []jose.SignatureAlgorithm {
	switch k := public.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits >= minModulus && bits <= maxModulus {
			return []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}
		}
	case *ecdsa.PublicKey:
		switch k.Curve.Params().BitSize {
		case 256:
			return []jose.SignatureAlgorithm{jose.ES256}
		case 384:
			return []jose.SignatureAlgorithm{jose.ES384}
		case 521:
			return []jose.SignatureAlgorithm{jose.ES512}
		}
	case ed25519.PublicKey:
		return []jose.SignatureAlgorithm{jose.EdDSA}
	}
	return nil
}
