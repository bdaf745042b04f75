package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// MinKey is the least length of a key, in bytes: 16 random characters of hex or base64
// can't be guessed.
const MinKey = 16

// hashPrefix marks an entry that is the hash of a key.
const hashPrefix = "sha256:"

// Keys is a set of keys. It holds only their SHA-256. The nil set is empty.
type Keys struct{ hashes [][sha256.Size]byte }

// ReadKeys reads the keys at places as Secret has them. Each has keys separated by white
// space; sha256:HEX stands for the key with that hash, and lines that begin with # are
// comments. The error has every fault.
func ReadKeys(places []string) (*Keys, error) {
	k := &Keys{}
	var faults []error
	for _, place := range places {
		text, err := Secret(place)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if err := k.add(text); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", place, err))
		}
	}
	return k, errors.Join(faults...)
}

func (k *Keys) add(text string) error {
	before := len(k.hashes)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for entry := range strings.FieldsSeq(line) {
			hash, err := hashOf(entry)
			if err != nil {
				return err
			}
			k.hashes = append(k.hashes, hash)
		}
	}
	if len(k.hashes) == before {
		return errors.New("holds no key")
	}
	return nil
}

func hashOf(entry string) (hash [sha256.Size]byte, err error) {
	if digits, hashed := strings.CutPrefix(entry, hashPrefix); hashed {
		raw, err := hex.DecodeString(digits)
		if err != nil || len(raw) != sha256.Size {
			return hash, fmt.Errorf("what follows %s must be %d hex digits", hashPrefix, 2*sha256.Size)
		}
		return [sha256.Size]byte(raw), nil
	}
	if len(entry) < MinKey {
		return hash, fmt.Errorf("a key must have at least %d characters, such as `openssl rand -hex 24` prints", MinKey)
	}
	return sha256.Sum256([]byte(entry)), nil
}

// Len returns the number of keys.
func (k *Keys) Len() int {
	if k == nil {
		return 0
	}
	return len(k.hashes)
}

// Holder reports, in constant time, whether a key is in the set, and returns the key's id,
// which does not reveal the key.
func (k *Keys) Holder(key string) (id string, ok bool) {
	if k.Len() == 0 {
		return "", false
	}
	hash := sha256.Sum256([]byte(key))
	found := 0
	for i := range k.hashes {
		found |= subtle.ConstantTimeCompare(hash[:], k.hashes[i][:])
	}
	if found == 0 {
		return "", false
	}
	return hex.EncodeToString(hash[:]), true
}
