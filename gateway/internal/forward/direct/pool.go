package direct

import (
	"sync"
	"time"
)

// pool has the idle connections.
type pool struct {
	timeout time.Duration
	most    int

	mu      sync.Mutex
	idle    map[string][]*conn // by address, the one that was used last at the end
	reaping bool
}

// take returns an idle connection; nil for none.
func (p *pool) take(addr string) *conn {
	for {
		c := p.last(addr)
		if c == nil || c.alive() {
			return c
		}
		c.close()
	}
}

func (p *pool) last(addr string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.idle[addr]
	if len(all) == 0 {
		return nil
	}
	c := all[len(all)-1]
	all[len(all)-1] = nil
	p.idle[addr] = all[:len(all)-1]
	return c
}

// put keeps a connection, or closes it if there are many.
func (p *pool) put(c *conn) {
	c.used, c.since = true, time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle[c.addr]) >= p.most {
		c.close()
		return
	}
	p.idle[c.addr] = append(p.idle[c.addr], c)
	if !p.reaping {
		p.reaping = true
		time.AfterFunc(p.timeout, p.reap)
	}
}

// reap closes the connections that were idle for too long, and looks again later as long
// as there are others.
func (p *pool) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaping = p.closeIdle(time.Now()) > 0; p.reaping {
		time.AfterFunc(p.timeout/2, p.reap)
	}
}

// closeAll closes all idle connections.
func (p *pool) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeIdle(time.Now().Add(p.timeout))
}

// closeIdle closes the connections that are idle for too long by a time, and returns how
// many are left; the lock is held.
func (p *pool) closeIdle(now time.Time) (left int) {
	for addr, all := range p.idle {
		n := 0
		for n < len(all) && now.Sub(all[n].since) >= p.timeout {
			all[n].close()
			n++
		}
		if all = all[n:]; len(all) == 0 {
			delete(p.idle, addr)
		} else {
			p.idle[addr] = all
		}
		left += len(all)
	}
	return left
}
