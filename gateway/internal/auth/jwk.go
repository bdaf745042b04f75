package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// key is one public key of an issuer.
type key struct {
	id string
	// algorithms are those that it may be used with.
	algorithms []string
	public     crypto.PublicKey
}

// fits says whether the key may have signed a token with a key id, or without
// one, by an algorithm.
func (k key) fits(id, algorithm string) bool {
	return (id == "" || k.id == "" || id == k.id) && slices.Contains(k.algorithms, algorithm)
}

// webKey is a JSON Web Key (RFC 7517, RFC 7518, RFC 8037).
type webKey struct {
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	Y         string `json:"y"`
	N         string `json:"n"`
	E         string `json:"e"`
}

// parseKeySet reads a key set. Keys of other kinds or uses are passed over, as
// RFC 7517 wants it; a set without a usable key is an error.
func parseKeySet(data []byte) ([]key, error) {
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
	var w webKey
	if err := json.Unmarshal(raw, &w); err != nil {
		return key{}, fmt.Errorf("parse key: %w", err)
	}
	if w.Use != "" && w.Use != "sig" {
		return key{}, fmt.Errorf("key %q is not for signatures", w.ID)
	}
	k := key{id: w.ID}
	var err error
	switch w.Type {
	case "RSA":
		k.public, k.algorithms, err = w.rsa()
	case "EC":
		k.public, k.algorithms, err = w.ecdsa()
	case "OKP":
		k.public, k.algorithms, err = w.ed25519()
	default:
		err = fmt.Errorf("unknown type %q", w.Type)
	}
	if err == nil && w.Algorithm != "" {
		if !slices.Contains(k.algorithms, w.Algorithm) {
			err = fmt.Errorf("algorithm %q does not fit", w.Algorithm)
		}
		k.algorithms = []string{w.Algorithm}
	}
	if err != nil {
		return key{}, fmt.Errorf("key %q: %w", w.ID, err)
	}
	return k, nil
}

// Sizes of RSA moduli, in bits: NIST SP 800-131A wants 2048; the upper bound
// limits the work for a signature.
const (
	minModulus = 2048
	maxModulus = 8192
)

func (w *webKey) rsa() (crypto.PublicKey, []string, error) {
	n, errN := number(w.N)
	e, errE := number(w.E)
	if err := errors.Join(errN, errE); err != nil {
		return nil, nil, err
	}
	if n.BitLen() < minModulus || n.BitLen() > maxModulus || e.BitLen() > 31 || e.Int64() < 3 || e.Bit(0) == 0 {
		return nil, nil, fmt.Errorf("modulus of %d bits or exponent is out of bounds", n.BitLen())
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}, []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, nil
}

func (w *webKey) ecdsa() (crypto.PublicKey, []string, error) {
	var curve elliptic.Curve
	var algorithm string
	switch w.Curve {
	case "P-256":
		curve, algorithm = elliptic.P256(), "ES256"
	case "P-384":
		curve, algorithm = elliptic.P384(), "ES384"
	case "P-521":
		curve, algorithm = elliptic.P521(), "ES512"
	default:
		return nil, nil, fmt.Errorf("unknown curve %q", w.Curve)
	}
	x, errX := field(w.X, (curve.Params().BitSize+7)/8)
	y, errY := field(w.Y, (curve.Params().BitSize+7)/8)
	if err := errors.Join(errX, errY); err != nil {
		return nil, nil, err
	}
	const uncompressed = 4 // SEC 1, 2.3.3
	public, err := ecdsa.ParseUncompressedPublicKey(curve, slices.Concat([]byte{uncompressed}, x, y))
	if err != nil {
		return nil, nil, fmt.Errorf("point: %w", err)
	}
	return public, []string{algorithm}, nil
}

func (w *webKey) ed25519() (crypto.PublicKey, []string, error) {
	if w.Curve != "Ed25519" {
		return nil, nil, fmt.Errorf("unknown curve %q", w.Curve)
	}
	x, err := field(w.X, ed25519.PublicKeySize)
	if err != nil {
		return nil, nil, err
	}
	return ed25519.PublicKey(x), []string{"EdDSA"}, nil
}

func number(text string) (*big.Int, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) == 0 {
		return nil, errors.New("a number can't be read")
	}
	return new(big.Int).SetBytes(raw), nil
}

// field decodes a value of exactly size bytes.
func field(text string, size int) ([]byte, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != size {
		return nil, fmt.Errorf("a coordinate must have %d bytes", size)
	}
	return raw, nil
}
