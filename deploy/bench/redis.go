package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/schemas/kit/freeport"
)

// The guard's parameters, as in the default policy.
const (
	guardWindow   = 60 * time.Second
	guardCooldown = 30 * time.Second
	guardHits     = 5
)

// guardScript is the plain guard as one round trip.
var guardScript = redis.NewScript(`
if redis.call('GET', KEYS[2]) then return 0 end
local n = redis.call('INCR', KEYS[1])
if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
if n > tonumber(ARGV[2]) then redis.call('SET', KEYS[2], 1, 'EX', ARGV[3]) end
return n`)

// redisServer is a client of a Redis server that does not write to disk.
type redisServer struct{ client *redis.Client }

func (b *bench) startRedis(ctx context.Context) (*redisServer, error) {
	addr, err := freeport.Addr()
	if err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(addr, ":")
	if _, err := b.start(ctx, program{file: "redis-server", args: []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--loglevel", "warning"}}); err != nil {
		return nil, err
	}
	r := &redisServer{redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64, MaxRetries: -1})}
	b.add(r.client.Close)
	return r, await(ctx, "redis-server", func(ctx context.Context) error { return guardScript.Load(ctx, r.client).Err() })
}

// guard returns a contender that counts hits of fingerprints, each under two keys.
func guard(name string, count func(ctx context.Context, counter, cooldown string) error) measure.Contender {
	return drawing(name, func(ctx context.Context, key [sha256.Size]byte, _ int) error {
		counter := hex.EncodeToString(key[:])
		return count(ctx, counter, counter+":cooldown")
	})
}

// plain is the guard as it is usually written, one command after another.
func (r *redisServer) plain(ctx context.Context, counter, cooldown string) error {
	err := r.client.Get(ctx, cooldown).Err()
	if !errors.Is(err, redis.Nil) {
		return err // blocked, or no answer
	}
	n, err := r.client.Incr(ctx, counter).Result()
	if err != nil {
		return err
	}
	if n == 1 {
		return r.client.Expire(ctx, counter, guardWindow).Err()
	}
	if n > guardHits {
		return r.client.Set(ctx, cooldown, 1, guardCooldown).Err()
	}
	return nil
}

// lua is the guard as a script.
func (r *redisServer) lua(ctx context.Context, counter, cooldown string) error {
	return guardScript.EvalSha(ctx, r.client, []string{counter, cooldown},
		int(guardWindow.Seconds()), guardHits, int(guardCooldown.Seconds())).Err()
}
