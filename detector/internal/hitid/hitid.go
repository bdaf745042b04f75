// Package hitid keeps the ids of the newest hits in a record, so that a check counts once if a
// gateway sends it to a second detector after the first one died.
//
// It does not know what a hit is, or where records are stored.
package hitid

import (
	"crypto/sha256"
	"encoding/hex"
)

const (
	// IDSize is the length of a hit's id.
	IDSize = 8
	// MaxIDs bounds the ids in a record, to 2 KiB. A check is sent again within some tenths of
	// a second; if more hits than this on the same key come meanwhile, it counts twice.
	MaxIDs = 256
)

// IDs are the ids of the newest hits, the newest one last.
type IDs string

// Has reports whether the id is among them; false for a hit without an id.
func (s IDs) Has(id string) bool {
	for i := 0; len(id) == IDSize && i+IDSize <= len(s); i += IDSize {
		if string(s[i:i+IDSize]) == id {
			return true
		}
	}
	return false
}

// With returns the ids with one more, if it is an id.
func (s IDs) With(id string) IDs {
	if len(id) != IDSize || len(s)%IDSize != 0 || s.Has(id) {
		return s
	}
	return (s + IDs(id)).Newest(MaxIDs)
}

// Len returns how many ids there are.
func (s IDs) Len() int { return len(s) / IDSize }

// Newest returns the n newest ids.
func (s IDs) Newest(n int) IDs { return s[max(0, len(s)-n*IDSize):] }

// markSize is the length of a mark's hash in bytes. Clients that forge equal marks hide
// nothing, since each mark stands for a hit that was counted.
const markSize = 8

// Mark returns a short hash of the id or idempotency key of a request, in hex.
func Mark(request string) string {
	sum := sha256.Sum256([]byte(request))
	return hex.EncodeToString(sum[:markSize])
}
