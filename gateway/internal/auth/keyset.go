package auth

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-jose/go-jose/v4"
)

// How an issuer's keys are kept.
const (
	// refresh is how often they are read anew.
	refresh = 10 * time.Minute
	// maxStale is how long they hold while the issuer can't be reached.
	maxStale = 24 * time.Hour
	// unknownEvery is how often a token with an unknown key makes us look for
	// a new one; anybody can make up such tokens.
	unknownEvery = 30 * time.Second
	// maxWait is how long a request waits for that.
	maxWait      = 5 * time.Second
	fetchTimeout = 10 * time.Second
	maxKeySet    = 1 << 20
)

// keySet follows the key set at a URL.
type keySet struct {
	url    string
	client *http.Client
	log    *slog.Logger
	now    func() time.Time
	demand chan struct{}

	mu      sync.Mutex
	keys    []key
	read    time.Time     // when keys were read
	earlier time.Time     // no attempt is made before
	tried   chan struct{} // closed and replaced with each attempt
}

func newKeySet(address string, deps Deps) (*keySet, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("--auth jwt:URL: the URL can't be read")
	case u.User != nil:
		return nil, errors.New("--auth jwt:URL: the URL must have no user")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return nil, errors.New("--auth jwt:URL: the URL must begin with https://, since who can change the keys can sign tokens")
	}
	client := deps.Client
	if client == nil {
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &keySet{
		url: address, client: client, log: deps.Log, now: deps.Now,
		demand: make(chan struct{}, 1), tried: make(chan struct{}),
	}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// run reads the keys, again and again, until the context ends.
func (s *keySet) run(ctx context.Context) {
	failing := backoff.NewExponentialBackOff()
	failing.InitialInterval, failing.MaxInterval = time.Second, time.Minute
	for ctx.Err() == nil {
		next, pause := refresh, unknownEvery
		keys, err := s.fetch(ctx)
		if err != nil {
			next = failing.NextBackOff()
			pause = next
			if ctx.Err() == nil {
				s.log.Warn("the issuer's keys could not be read", "url", s.url, "error", err, "retry_in", next)
			}
		} else {
			failing.Reset()
		}
		s.store(keys, err, pause)
		s.sleep(ctx, next, pause)
	}
}

func (s *keySet) store(keys []key, err error, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.keys, s.read = keys, s.now()
	}
	s.earlier = s.now().Add(pause)
	close(s.tried)
	s.tried = make(chan struct{})
}

// sleep returns when it is time for the next attempt, or after the pause when
// one is asked for.
func (s *keySet) sleep(ctx context.Context, next, pause time.Duration) {
	timer, paused := time.NewTimer(next), time.NewTimer(pause)
	defer timer.Stop()
	defer paused.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
		return
	case <-paused.C:
	}
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-s.demand:
	}
}

// find returns the keys for a token's key id and algorithm; none if the issuer
// has no such key, ErrUnavailable if nobody knows.
func (s *keySet) find(ctx context.Context, id string, algorithm jose.SignatureAlgorithm) ([]crypto.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for {
		found, known, tried := s.look(id, algorithm)
		switch {
		case len(found) > 0:
			return found, nil
		case tried == nil && known:
			return nil, nil
		case tried == nil:
			return nil, ErrUnavailable
		}
		select {
		case s.demand <- struct{}{}:
		default: // somebody asked already
		}
		select {
		case <-tried:
		case <-ctx.Done():
			return nil, ErrUnavailable
		}
	}
}

// look searches what is known. tried is closed with the next attempt, and nil
// if that is not worth waiting for.
func (s *keySet) look(id string, algorithm jose.SignatureAlgorithm) (found []crypto.PublicKey, known bool, tried <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if known = !s.read.IsZero() && now.Sub(s.read) < maxStale; known {
		for _, k := range s.keys {
			if k.fits(id, algorithm) {
				found = append(found, k.public)
			}
		}
	}
	if now.Before(s.earlier) {
		return found, known, nil
	}
	return found, known, s.tried
}

func (s *keySet) fetch(ctx context.Context) ([]key, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("read key set: %w", err)
	}
	res, err := s.client.Do(req)
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
	return parseKeySet(data)
}
