// Package hitid remembers the ids of hits in a record, so that a check counts once if a
// gateway sends it to a second detector after the first one died.
//
// It does not know what a hit is, or where records are stored.
package hitid

const (
	// IDSize is the length of a hit's id.
	IDSize = 8
	// Most bounds the ids that are remembered, which are 2 KiB at most. Between the two
	// times that a check is sent lie some tenths of a second; if more hits on the same key
	// come meanwhile, the check counts twice.
	Most = 256
)

// IDs are the ids of the newest hits, the newest one last.
type IDs string

// Has reports whether a hit is remembered; never one without an id.
func (s IDs) Has(id string) bool {
	for i := 0; len(id) == IDSize && i+IDSize <= len(s); i += IDSize {
		if string(s[i:i+IDSize]) == id {
			return true
		}
	}
	return false
}

// With returns the ids with that of one more hit, if it has one.
func (s IDs) With(id string) IDs {
	if len(id) != IDSize || len(s)%IDSize != 0 || s.Has(id) {
		return s
	}
	return (s + IDs(id)).Newest(Most)
}

// Len returns how many ids there are.
func (s IDs) Len() int { return len(s) / IDSize }

// Newest returns the n newest ids.
func (s IDs) Newest(n int) IDs { return s[max(0, len(s)-n*IDSize):] }
