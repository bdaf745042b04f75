package vectors

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisTimeout bounds one command when the server hangs.
const redisTimeout = 2 * time.Second

// Redis keeps histories on a Redis server as vector sets, one a scope. Whether
// the server has vector sets is asked when it can first be reached, and again
// after another one answered at its address.
type Redis struct {
	client redis.UniversalClient
	now    func() time.Time
	known  atomic.Bool // the server has vector sets
}

// NewRedis returns a store on the server of a redis:// or rediss:// URL, which
// need not be up yet.
func NewRedis(url string, now func() time.Time) (*Redis, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		// The error quotes the URL, which may hold a password.
		return nil, errors.New("read --redis: the URL must look like redis://host:6379 or rediss://user:password@host:6379/0, with characters such as / and @ in the password percent-encoded")
	}
	options.Protocol, options.ContextTimeoutEnabled, options.DisableIdentity = 2, true, true
	options.MaxRetries = 1
	quiet()
	return &Redis{client: redis.NewClient(options), now: now}, nil
}

// quiet keeps the client library from writing to standard error what it also
// returns; the library has one logger for all clients.
var quiet = sync.OnceFunc(func() { redis.SetLogger(silence{}) })

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// Kind implements Store.
func (s *Redis) Kind() string { return "redis vector sets" }

// NeedsVectors implements Store.
func (*Redis) NeedsVectors() bool { return true }

// Close implements Store.
func (s *Redis) Close() error { return s.client.Close() }

// Ping implements Store.
func (s *Redis) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	err := s.find(ctx)
	if err == nil {
		err = s.client.Ping(ctx).Err()
	}
	return unavailable("reach Redis", err)
}

// Compare implements Store.
func (s *Redis) Compare(ctx context.Context, r Request) (History, error) {
	r.Dim = 0 // so that a subject without vectors is refused
	if err := r.check(); err != nil {
		return History{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	if err := s.find(ctx); err != nil {
		return History{}, unavailable("ask Redis for vector sets", err)
	}
	past, err := s.compare(ctx, r, s.now())
	if isUnknownCommand(err) {
		s.known.Store(false) // another server answers at this address now
	}
	return past, unavailable("compare in "+s.Kind(), err)
}

// Expect implements Store. Nothing is noted: Compare never says that there is no streak.
func (*Redis) Expect(_ context.Context, r Request) error { return r.check() }

// ErrNoVectors says that a Redis server has no vector sets.
var ErrNoVectors = errors.New("this Redis has no vector sets: Redis 8 is needed")

// find asks the server whether it has vector sets.
func (s *Redis) find(ctx context.Context) error {
	if s.known.Load() {
		return nil
	}
	offered, err := s.client.Do(ctx, "COMMAND", "INFO", "VSIM").Slice()
	switch {
	case err != nil:
		return err
	case len(offered) != 1 || offered[0] == nil:
		return ErrNoVectors
	}
	s.known.Store(true)
	return nil
}

func isUnknownCommand(err error) bool {
	if err == nil {
		return false
	}
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "unknown command") || strings.Contains(text, "unknown redis command")
}

// attributes are kept beside a vector.
type attributes struct {
	Marks string `json:"m,omitempty"` // decimal: JSON numbers would be rounded
	Text  string `json:"t,omitempty"`
	// Sentences are the bytes of compare.Sentences.
	Sentences []byte `json:"s,omitempty"`
	Digest    string `json:"d,omitempty"` // decimal
}
