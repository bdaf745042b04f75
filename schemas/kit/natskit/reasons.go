package natskit

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// maxReasons bounds the reasons that are kept in one outage.
const maxReasons = 16

// reasons are the errors of one outage.
type reasons struct {
	mu   sync.Mutex
	said []string
	last error
}

func (r *reasons) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said, r.last = nil, nil
}

// add records a reason and reports whether it is new. err may be nil.
func (r *reasons) add(err error) bool {
	if err == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = err
	text := strings.ToLower(err.Error()) // the client and the server spell them differently
	if slices.Contains(r.said, text) || len(r.said) >= maxReasons {
		return false
	}
	r.said = append(r.said, text)
	return true
}

// err returns ErrNotConnected with the last reason.
func (r *reasons) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return ErrNotConnected
	}
	return fmt.Errorf("%w: %w", ErrNotConnected, r.last)
}
