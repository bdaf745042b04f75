package service

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// largeLive is the live memory, in bytes and with the headroom, from which on needless
	// garbage is freed.
	largeLive = 2 * headroom
	// leastGarbage is the garbage and free memory, in bytes, that any process may keep.
	leastGarbage = 32 << 20
	// collected is the live memory that a collection marks per second, in bytes; collecting
	// is the share of a processor that collections may take.
	collected, collecting = 512 << 20, 0.05
	// lookEvery is the pause between two looks at the heap.
	lookEvery = 5 * time.Second
)

// returnMemory makes this process collect garbage and return free memory while it has much
// live memory and little to do. Otherwise a NATS server that received a million records would
// keep twice their size while it is idle. While a process is busy, Go's default holds, since
// more collections would take too much time.
func returnMemory() {
	if os.Getenv("GOGC") != "" {
		return
	}
	go func() {
		for before := readHeap(); ; {
			time.Sleep(lookEvery)
			now := readHeap()
			rate := float64(now.allocated-before.allocated) / lookEvery.Seconds()
			if before = now; now.wastes(rate) {
				debug.FreeOSMemory()
			}
		}
	}()
}

// heap has the runtime's metrics of the heap, in bytes, with the headroom.
type heap struct {
	// live is the memory that the last collection left, held that of all objects and free
	// memory, allocated the sum of all allocations.
	live, held, allocated uint64
}

func readHeap() heap {
	read := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(read)
	h := heap{live: read[0].Value.Uint64(), allocated: read[1].Value.Uint64()}
	for _, s := range read[2:] {
		h.held += s.Value.Uint64()
	}
	return h
}

// wastes reports whether a process with an allocation rate, in bytes per second, keeps
// needless garbage: with less, collections would still take no more than their share of a
// processor.
func (h heap) wastes(rate float64) bool {
	useful := max(leastGarbage, rate*float64(h.live)/(collected*collecting))
	return h.live > largeLive && float64(h.held) > float64(h.live)+useful
}
