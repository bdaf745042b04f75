package service

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// leastGarbage is how much garbage, in bytes, may wait before it is collected, however
	// little a process does.
	leastGarbage = 96 << 20
	// collected is how much live memory, in bytes per second, a collection goes through.
	collected = 512 << 20
	// collecting is the part of a processor that collections may take.
	collecting = 0.05
	// usual is Go's default for GOGC: garbage as large as live memory. The least is for
	// processes with gigabytes of live memory.
	usual, leastPercent = 100, 10
	// boundEvery is how often the bound is computed anew.
	boundEvery = 5 * time.Second
)

// boundGarbage has garbage in this process collected earlier while it has much live memory
// and little to do. A NATS server with a million records otherwise keeps as much garbage as
// records for as long as nobody asks for more memory. While a process has much to do, Go's
// default holds, since collections would take too long.
func boundGarbage() {
	if os.Getenv("GOGC") != "" {
		return
	}
	go func() {
		percent := usual
		for before := readHeap(); ; {
			time.Sleep(boundEvery)
			now := readHeap()
			next := garbagePercent(now.live, float64(now.allocated-before.allocated)/boundEvery.Seconds())
			if before = now; next != percent {
				percent = next
				debug.SetGCPercent(percent)
			}
		}
	}()
}

// heap is what the runtime says of the heap, in bytes.
type heap struct {
	// live is what the last collection left, with the headroom.
	live uint64
	// allocated is the sum of all allocations so far.
	allocated uint64
}

func readHeap() heap {
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(read)
	return heap{live: read[0].Value.Uint64(), allocated: read[1].Value.Uint64()}
}

// garbagePercent returns GOGC for a process with so many live bytes that allocates so many
// bytes a second: garbage up to leastGarbage, or more where collections would otherwise
// take more than their part of a processor.
func garbagePercent(live uint64, rate float64) int {
	if live == 0 {
		return usual
	}
	garbage := max(leastGarbage, rate*float64(live)/(collected*collecting))
	return int(max(leastPercent, min(usual, usual*garbage/float64(live))))
}
