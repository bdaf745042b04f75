// Package bounded bounds what clients send: texts and names that they choose, and the maps that
// remember the latest traffic. It does not know what the maps remember.
package bounded

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// Name returns the name in valid UTF-8, cut to at most most bytes. A cut name ends in a
// hash of the whole, so that it stays unique.
func Name(name string, most int) string {
	if len(name) > most {
		sum := sha256.Sum256([]byte(name))
		short := hex.EncodeToString(sum[:8])
		name = name[:most-len(short)-1] + "-" + short
	}
	return strings.ToValidUTF8(name, "")
}

// Text returns at most most bytes of the beginning of a text, without half characters.
func Text(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// MakeRoom removes an arbitrary entry of a map that holds limit entries, unless the map has the
// key.
func MakeRoom[K comparable, V any](m map[K]V, key K, limit int) {
	if _, known := m[key]; known || len(m) < limit {
		return
	}
	for old := range m {
		delete(m, old)
		return
	}
}
