package service

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// largeLive is the live memory in bytes, with the headroom, from which on a process
	// does not keep more garbage than it has use for.
	largeLive = 2 * headroom
	// leastGarbage is the garbage, in bytes and together with memory that is free, that a
	// process may keep however little it does.
	leastGarbage = 32 << 20
	// collected is how much live memory, in bytes per second, a collection goes through,
	// and collecting the part of a processor that collections may take.
	collected, collecting = 512 << 20, 0.05
	// lookEvery is the pause between two looks at the heap.
	lookEvery = 5 * time.Second
)

// returnMemory has this process collect garbage and give free memory back while it has
// much live memory and little to do. A NATS server that took in a million records, and
// dropped what it indexes them by, otherwise keeps twice their size for as long as nobody
// asks it for more. While a process has much to do, Go's default holds, since more
// collections would take too much time.
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

// heap is what the runtime says of the heap, in bytes, each with the headroom.
type heap struct {
	// live is what the last collection left, held the memory of objects, live or garbage, and
	// of what is free, and allocated the sum of all allocations so far.
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

// wastes reports whether a process with this rate of allocation, in bytes a second, keeps
// needless garbage: with less, collections would still take no more than their share of a
// processor.
func (h heap) wastes(rate float64) bool {
	useful := max(leastGarbage, rate*float64(h.live)/(collected*collecting))
	return h.live > largeLive && float64(h.held) > float64(h.live)+useful
}
