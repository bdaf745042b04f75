package board

import (
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/policy"
)

// Pushed is the last pushed policy bundle. The zero value is none.
type Pushed struct {
	changed func()
	mu      sync.Mutex
	version string
	at      time.Time
	fault   string
}

// Set sets the stored bundle and the time when it was pushed; nil for none.
func (p *Pushed) Set(stored []byte, at time.Time) {
	defer p.changed()
	version, fault := "", ""
	if stored != nil {
		bundle, err := policy.ParseTolerant(stored)
		if err == nil {
			version, err = bundle.Version()
		}
		if err != nil {
			fault = "the pushed bundle cannot be read; check it with: unloop policy check"
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version, p.at, p.fault = version, at, fault
}

// Get returns the version of the bundle, when it was pushed, and why it can't be read. All are
// zero if there is none.
func (p *Pushed) Get() (version string, at time.Time, fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version, p.at, p.fault
}
