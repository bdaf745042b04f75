// Package jwks follows the key set that an issuer of tokens publishes at a URL (RFC 7517).
//
// It knows public keys and when to read them again. It does not read tokens, and does not
// decide which URLs are allowed.
package jwks

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-jose/go-jose/v4"
)

// ErrUnavailable says that the issuer's keys are not known, so that no token can be
// verified.
var ErrUnavailable = errors.New("the issuer's keys are not available")

const (
	// refresh is how often the keys are read.
	refresh = 10 * time.Minute
	// maxStale is how long they hold while the issuer can't be reached.
	maxStale = 24 * time.Hour
	// unknownEvery is how often a token with an unknown key causes the keys to be read:
	// anybody can make up such tokens.
	unknownEvery = 30 * time.Second
	// maxWait is how long a request waits for that.
	maxWait      = 5 * time.Second
	fetchTimeout = 10 * time.Second
	maxKeySet    = 1 << 20
)

// Follower holds the current keys of one issuer. Make it with New. It is safe for concurrent use.
type Follower struct {
	url     string
	client  *http.Client
	log     *slog.Logger
	failing *backoff.ExponentialBackOff // used by one attempt at a time

	mu      sync.Mutex
	keys    []key
	read    time.Time     // of the keys
	next    time.Time     // of the next attempt
	earlier time.Time     // of the next attempt if a key is missing
	attempt chan struct{} // closed at the end of the current attempt; nil if there is none
}

// New returns a follower of the key set at a URL, without keys.
func New(url string, client *http.Client, log *slog.Logger) *Follower {
	f := &Follower{url: url, client: client, log: log, failing: backoff.NewExponentialBackOff()}
	f.failing.InitialInterval, f.failing.MaxInterval = time.Second, time.Minute
	return f
}

// Read returns when the keys were read; zero if they never were.
func (f *Follower) Read() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read
}

// Run keeps the keys fresh until the context ends, even if no token asks for one.
func (f *Follower) Run(ctx context.Context) {
	for ctx.Err() == nil {
		f.mu.Lock()
		attempt := f.refresh(false)
		timer := time.NewTimer(max(time.Until(f.next), time.Second))
		f.mu.Unlock()
		select {
		case <-attempt:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// Known returns the known keys for a token's key id and algorithm, without waiting. Missing and old
// keys are read in the background.
func (f *Follower) Known(id string, algorithm jose.SignatureAlgorithm) []crypto.PublicKey {
	found, _, _ := f.look(id, algorithm, true)
	return found
}

// Find returns the keys for a token's key id and algorithm, and waits until a missing one is read.
// It returns none if the issuer has no such key, and ErrUnavailable if the issuer's keys are not
// known.
func (f *Follower) Find(ctx context.Context, id string, algorithm jose.SignatureAlgorithm) ([]crypto.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for {
		found, known, attempt := f.look(id, algorithm, false)
		switch {
		case len(found) > 0, attempt == nil && known:
			return found, nil
		case attempt == nil:
			return nil, ErrUnavailable
		}
		select {
		case <-attempt:
		case <-ctx.Done():
			return nil, ErrUnavailable
		}
	}
}

// look searches the keys; known says whether the issuer's keys are known. If no key is
// found, or the keys are old and must be fresh, they are read again: attempt is closed at
// the end of that, and nil if it is too early.
func (f *Follower) look(id string, algorithm jose.SignatureAlgorithm, fresh bool) (found []crypto.PublicKey, known bool, attempt <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known = !f.read.IsZero() && time.Since(f.read) < maxStale; known {
		for _, k := range f.keys {
			if k.fits(id, algorithm) {
				found = append(found, k.public)
			}
		}
	}
	if len(found) == 0 || fresh {
		attempt = f.refresh(len(found) == 0)
	}
	return found, known, attempt
}

// refresh starts to read the keys if it is time, or sooner if one is missing. It returns
// the current attempt, if there is one. The lock is held.
func (f *Follower) refresh(missing bool) (attempt <-chan struct{}) {
	now := time.Now()
	if f.attempt == nil && (!now.Before(f.next) || missing && !now.Before(f.earlier)) {
		f.attempt = make(chan struct{})
		go f.try()
	}
	return f.attempt
}

// try reads the keys. If it fails, those that are known stay.
func (f *Follower) try() {
	keys, err := f.fetch()
	next, pause := refresh, unknownEvery
	if err != nil {
		next = f.failing.NextBackOff()
		pause = next
		f.log.Warn("the issuer's keys could not be read", "url", f.url, "error", err, "retry_in", next)
	} else {
		f.failing.Reset()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if err == nil {
		f.keys, f.read = keys, now
	}
	f.next, f.earlier = now.Add(next), now.Add(pause)
	close(f.attempt)
	f.attempt = nil
}

func (f *Follower) fetch() ([]key, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("read key set: %w", err)
	}
	res, err := f.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read key set: %w", err)
	}
	defer func() { _ = res.Body.Close() }() // it was only read from
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read key set: status %d", res.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxKeySet+1))
	if err != nil {
		return nil, fmt.Errorf("read key set: %w", err)
	}
	if len(data) > maxKeySet {
		return nil, fmt.Errorf("read key set: it has more than %d bytes", maxKeySet)
	}
	return parse(data)
}
