package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// minChallenge and maxChallenge bound the length of a challenge, in bytes.
const minChallenge, maxChallenge = 32, 128

// NewChallenge returns a random challenge.
func NewChallenge() string { return rand.Text() + rand.Text() }

// Proof returns the answer to a challenge. It shows that a process holds the key and
// listens at addr, and reveals neither the key nor the answer to another challenge. It
// depends on the address, so that a program at another address can't pass a challenge on
// to the process. It is empty without a key, or if the challenge's length is wrong.
func Proof(key, challenge, addr string) string {
	if key == "" || len(challenge) < minChallenge || len(challenge) > maxChallenge {
		return ""
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte("unloop gateway proof 1\x00" + challenge + "\x00" + addr))
	return hex.EncodeToString(mac.Sum(nil))
}

// Proves reports whether a proof answers the challenge, in constant time.
func Proves(proof, key, challenge, addr string) bool {
	want := Proof(key, challenge, addr)
	return want != "" && hmac.Equal([]byte(proof), []byte(want))
}
