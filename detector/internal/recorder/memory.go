package recorder

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas/openloop"
)

// Memory records incidents in this process only. It keeps ended incidents and publishes no
// events.
type Memory struct {
	mu   sync.Mutex
	open map[string]*remembered
	all  []*remembered
}

type remembered struct {
	record incident.Record
	until  time.Time
}

// NewMemory returns a recorder without incidents.
func NewMemory() *Memory { return &Memory{open: map[string]*remembered{}} }

// Record notes findings of one incident and returns its id.
func (m *Memory) Record(_ context.Context, findings ...incident.Finding) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := &findings[0]
	key := first.Key()
	o := m.open[key]
	if o == nil || o.until.Before(first.At) {
		o = &remembered{record: incident.New(first, fmt.Sprintf("loop-%d", len(m.all)+1))}
		m.open[key] = o
		m.all = append(m.all, o)
	}
	for i := range findings {
		o.record = o.record.Add(&findings[i])
	}
	o.until = o.record.Ends
	return o.record.LoopID, nil
}

// Open returns the id of the open incident that a finding would belong to; "" if
// there is none.
func (m *Memory) Open(f incident.Finding) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.open[f.Key()]; o != nil && !o.until.Before(f.At) {
		return o.record.LoopID
	}
	return ""
}

// Incidents returns all incidents in the order in which they began.
func (m *Memory) Incidents() []openloop.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]openloop.Record, len(m.all))
	for i, o := range m.all {
		out[i] = o.record.Record
	}
	return out
}
