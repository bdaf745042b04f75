package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Bounds of a signing key in bytes, and the prefix of its text, from the Standard Webhooks
// specification.
const (
	minKey       = 24
	maxKey       = 64
	secretPrefix = "whsec_"
)

// Errors of DecodeSecret. None of them contains a part of the secret.
var (
	ErrSecretPrefix   = errors.New("secret does not begin with " + secretPrefix)
	ErrSecretEncoding = errors.New("secret is not standard base64 after " + secretPrefix)
	ErrSecretLength   = fmt.Errorf("secret does not hold %d to %d bytes", minKey, maxKey)
)

// DecodeSecret returns the signing key of a secret, which is whsec_ and base64. Other text is not
// taken for the key itself: receivers' libraries would decode it, and no signature would match.
func DecodeSecret(secret string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok {
		return nil, ErrSecretPrefix
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, ErrSecretEncoding
	}
	if len(key) < minKey || len(key) > maxKey {
		return nil, ErrSecretLength
	}
	return key, nil
}
