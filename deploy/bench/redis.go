package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
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

// redisServer is a Redis server that stores nothing on disk.
type redisServer struct {
	cmd    *exec.Cmd
	client *redis.Client
}

func startRedis(ctx context.Context) (*redisServer, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is not installed")
	}
	addr, err := freeport.Addr()
	if err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(addr, ":")
	cmd := exec.CommandContext(ctx, path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	r := &redisServer{cmd: cmd, client: redis.NewClient(&redis.Options{
		Addr: addr, PoolSize: 64, MaxRetries: -1,
	})}
	err = await(ctx, "redis-server", func(ctx context.Context) error { return guardScript.Load(ctx, r.client).Err() })
	if err != nil {
		err = errors.Join(err, r.stop())
	}
	return r, err
}

func (r *redisServer) stop() error {
	err := errors.Join(r.client.Close(), r.cmd.Process.Kill())
	_ = r.cmd.Wait() // that it was killed is no news
	return err
}

// guard counts a hit of a fingerprint under its two keys.
type guard func(ctx context.Context, counter, cooldown string) error

func (r *redisServer) contender(name string, count guard) measure.Contender {
	return measure.Contender{Name: name, Caller: func(round, caller int) (measure.Op, func(), error) {
		draw := rand.New(rand.NewPCG(uint64(round), uint64(caller)))
		op := func(ctx context.Context) error {
			fp := fingerprintOf(round, draw.IntN(keys))
			key := name + hex.EncodeToString(fp[:])
			return count(ctx, key, key+":cooldown")
		}
		return op, func() {}, nil
	}}
}

// plain is the guard with one command after the other, as it is usually written.
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

func (r *redisServer) lua(ctx context.Context, counter, cooldown string) error {
	return guardScript.EvalSha(ctx, r.client, []string{counter, cooldown},
		int(guardWindow.Seconds()), guardHits, int(guardCooldown.Seconds())).Err()
}
