package natskit

import (
	"runtime/metrics"
	"sync"
	"time"
)

// starvedAfter is the mean scheduling latency from which a process counts as starved. A
// request and its answer are scheduled about a dozen times.
const starvedAfter = time.Millisecond

// Starvation reports whether this process gets enough processor time. The zero value is ready
// to use.
type Starvation struct {
	mu     sync.Mutex
	sample [1]metrics.Sample
	counts []uint64
}

// Since reports whether the process was starved since the last call.
func (s *Starvation) Since() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sample[0].Name = "/sched/latencies:seconds"
	metrics.Read(s.sample[:])
	if s.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return false
	}
	h := s.sample[0].Value.Float64Histogram()
	known := len(s.counts) == len(h.Counts)
	if !known {
		s.counts = make([]uint64, len(h.Counts))
	}
	waits, seconds := uint64(0), 0.0
	for i, n := range h.Counts {
		if more := n - s.counts[i]; more > 0 && i > 0 { // the first bucket begins at -Inf
			waits += more
			seconds += float64(more) * h.Buckets[i]
		}
		s.counts[i] = n
	}
	return known && waits > 0 && seconds/float64(waits) > starvedAfter.Seconds()
}
