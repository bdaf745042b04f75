package access

import (
	"crypto/sha256"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/bounded"
)

// Limits on wrong keys. They prevent guessing, bound the cost of checks, and tolerate an
// agent whose key was just replaced.
const (
	// burst is how many wrong keys an address may send at once.
	burst = 10
	// refill is the time after which it may send one more.
	refill = 6 * time.Second
	// maxAddresses and maxWelcome bound the memory: about 100 bytes each.
	maxAddresses = 10_000
	maxWelcome   = 10_000
)

// Limiter limits how often an address may present a wrong key. The keys of an address
// over its limit are not checked, except for those that it has used with success: many
// clients may share one address, and one with a wrong key must not lock out the others.
// The zero value is ready.
type Limiter struct {
	mu sync.Mutex
	// debts has, by address, the time until which it pays for its wrong keys.
	debts   map[netip.Prefix]time.Time
	welcome map[visitor]struct{}
}

type visitor struct {
	from netip.Prefix
	key  [sha256.Size]byte
}

// Attempt is a key from an address, before it is checked.
type Attempt struct {
	visitor visitor
	at      time.Time
}

// NewAttempt describes a key presented by the remote address "host:port" of a
// connection. All addresses of an IPv6 network of 64 bits count as one: one
// host usually has all of them.
func NewAttempt(remote, key string, now time.Time) Attempt {
	return Attempt{visitor{network(remote), sha256.Sum256([]byte(key))}, now}
}

func network(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, _ := netip.ParseAddr(host) // what is not an address has the network of the zero one
	bits := 32
	if addr = addr.Unmap().WithZone(""); addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits) // it has so many
	return prefix
}

// Wait returns how long the attempt must wait before it is checked; zero if it need not.
func (l *Limiter) Wait(a Attempt) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	debt, known := l.debts[a.visitor.from]
	if _, ok := l.welcome[a.visitor]; ok || !known {
		return 0
	}
	return max(debt.Sub(a.at)-(burst-1)*refill, 0)
}

// Failed records that the attempt's key was wrong.
func (l *Limiter) Failed(a Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.debts == nil {
		l.debts = map[netip.Prefix]time.Time{}
	}
	debt, known := l.debts[a.visitor.from]
	if !known && len(l.debts) >= maxAddresses {
		l.forget(a.at)
	}
	if debt.Before(a.at) {
		debt = a.at
	}
	l.debts[a.visitor.from] = debt.Add(refill)
	delete(l.welcome, a.visitor) // the key was valid before
}

// forget makes room for one address: of a few addresses it removes those with no debt
// left, and at least one.
func (l *Limiter) forget(now time.Time) {
	const few = 16
	looked := 0
	for from, debt := range l.debts {
		if looked++; looked == few || debt.Before(now) {
			delete(l.debts, from)
		}
		if looked == few {
			return
		}
	}
}

// Passed records that the attempt's key was right.
func (l *Limiter) Passed(a Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.welcome == nil {
		l.welcome = map[visitor]struct{}{}
	}
	bounded.MakeRoom(l.welcome, a.visitor, maxWelcome)
	l.welcome[a.visitor] = struct{}{}
}
