package descriptor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// freshFor is how long fetched keys are used without asking again.
	freshFor = 10 * time.Minute
	// fetchAgain is the least time between two fetches, whatever tokens say.
	fetchAgain = 30 * time.Second
	// fetchTimeout bounds one fetch.
	fetchTimeout = 10 * time.Second
	// maxKeySet is the largest key set that is read, in bytes.
	maxKeySet = 1 << 20
)

// remoteKeys are keys that an issuer publishes. They are fetched in the
// background: no request waits for an issuer, and a token that comes before its
// key is unverified.
type remoteKeys struct {
	url     string
	client  *http.Client
	set     atomic.Pointer[jose.JSONWebKeySet]
	mu      sync.Mutex
	fetched time.Time
	busy    bool
	// arrived, if not nil, is called after each fetch.
	arrived func(error)
}

func newRemoteKeys(url string, client *http.Client) *remoteKeys {
	r := &remoteKeys{url: url, client: client}
	r.set.Store(&jose.JSONWebKeySet{})
	return r
}

// find returns the published keys for a token.
func (r *remoteKeys) find(id string, algorithm jose.SignatureAlgorithm, now time.Time) []any {
	var keys []any
	for _, k := range r.set.Load().Keys {
		if k.IsPublic() && k.Valid() && (id == "" || k.KeyID == id) && (k.Use == "" || k.Use == "sig") &&
			(k.Algorithm == "" || k.Algorithm == string(algorithm)) {
			keys = append(keys, k.Key)
		}
	}
	r.refresh(now, len(keys) == 0)
	return keys
}

// refresh fetches the keys again when they are old, or sooner when one is
// missing: issuers rotate them.
func (r *remoteKeys) refresh(now time.Time, missing bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := now.Sub(r.fetched)
	if r.busy || age < fetchAgain || age < freshFor && !missing {
		return
	}
	r.busy, r.fetched = true, now
	go func() {
		err := r.fetch()
		r.mu.Lock()
		r.busy = false
		r.mu.Unlock()
		if r.arrived != nil {
			r.arrived(err)
		}
	}()
}

// fetch replaces the keys. When it errs, those that were known stay.
func (r *remoteKeys) fetch() error {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return fmt.Errorf("fetch keys: %w", err)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return fmt.Errorf("fetch keys: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("fetch keys: the issuer answered %s", res.Status)
	}
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(io.LimitReader(res.Body, maxKeySet)).Decode(&set); err != nil {
		return fmt.Errorf("fetch keys: %w", err)
	}
	r.set.Store(&set)
	return nil
}
