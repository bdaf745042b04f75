package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/kit/pause"
)

const (
	// bodyMemory is the gateways' --max-body-memory, in bytes; the attacks announce
	// or send more than all.
	bodyMemory = 256 << 20
	// largeBody is the size of large bodies of the load, in bytes: more than what goes
	// through with little memory or time.
	largeBody = 1200 << 10
	// crowded is how much longer a request may take while the gateways work for attackers on
	// the same processors. A request that waits for what an attacker holds takes longer.
	crowded = 2 * time.Second
)

// attacks are what one hostile caller does to all gateways. Nobody else may notice more of it
// than that processors are busy.
var attacks = []fault{
	attack("large bodies that come slowly", 8, slowBody),
	attack("520 bodies of 1 MB that are announced", 520, announce),
	attack("64 connections that flood with bodies of 1 MB", 64, flood),
}

// attack returns a fault during which a number of attackers share the gateways.
func attack(name string, attackers int, one func(ctx context.Context, host string, n int)) fault {
	return fault{
		name: name, slower: crowded, decided: true, large: largeBody,
		begin: func(ctx context.Context, c *cluster) error {
			ctx, c.attack.stop = context.WithCancel(context.WithoutCancel(ctx))
			for n := range attackers {
				host := strings.TrimPrefix(c.balancer.pick(n), "http://")
				c.attack.all.Go(func() {
					for ctx.Err() == nil {
						one(ctx, host, n)
					}
				})
			}
			return nil
		},
		end: func(_ context.Context, c *cluster) error { c.endAttack(); return nil },
	}
}

// endAttack ends the attackers, if there are any.
func (c *cluster) endAttack() {
	if c.attack.stop != nil {
		c.attack.stop()
	}
	c.attack.all.Wait()
}

// opened sends the beginning of a request, whose body has a length, and returns the
// connection, which is closed when the context ends.
func opened(ctx context.Context, host string, length int) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		_ = pause.For(ctx, every) // before the next try
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer sk-attacker\r\nContent-Length: %d\r\n\r\n", host, length)
	return conn, err
}

// announce announces a body, sends a byte of it and waits.
func announce(ctx context.Context, host string, _ int) {
	conn, err := opened(ctx, host, 1<<20)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write([]byte("{")) // the gateway may have refused it
	_, _ = io.Copy(io.Discard, conn)
}

// slowBody sends most of a large body, and the rest byte by byte.
func slowBody(ctx context.Context, host string, _ int) {
	const length, begin = 3 << 20, 1300 << 10
	conn, err := opened(ctx, host, length)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Write(bytes.Repeat([]byte(" "), begin))
	for err == nil && pause.For(ctx, 100*time.Millisecond) == nil {
		_, err = conn.Write([]byte(" "))
	}
}

var flooding = http.Client{Timeout: startWithin, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// flood sends one large prompt.
func flood(ctx context.Context, host string, n int) {
	begin := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d at %d"}`, n, time.Now().UnixNano())
	body := begin + strings.Repeat(`,{"role":"assistant","content":"a b c"},{"role":"user","content":"d e f"}`, 1<<20/72) + "]}"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer sk-attacker")
	res, err := flooding.Do(req)
	if err != nil {
		_ = pause.For(ctx, every)
		return
	}
	_, _ = io.Copy(io.Discard, res.Body) // the attacker does not care
	_ = res.Body.Close()
}

// attackers are those of an attack that goes on.
type attackers struct {
	all  sync.WaitGroup
	stop context.CancelFunc
}
