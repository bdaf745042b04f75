package service

import (
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// headroom is the size of an allocation, in bytes, that the garbage collector counts as
// live memory. A service has some ten MiB of live memory and makes garbage with every
// request; by default the collector would run whenever that has doubled, which is all
// the time. The allocation is never written to, so it takes no physical memory. Garbage
// waits longer: at most twice as much as headroom.
//
// A higher GOGC (debug.SetGCPercent) is not the same, since it multiplies. Where it saves
// as many collections at 10 MiB of live memory, it lets the heap grow to 1.8 GiB at
// 200 MiB; with headroom it grows to 0.5 GiB.
const headroom = 64 << 20

var reserve = sync.OnceValue(func() []byte {
	returnMemory()
	return make([]byte, headroom)
})

// ofMemory is the part of the container's memory that Go may use. The rest is for memory
// that Go does not count: thread stacks, mapped files, the network.
const ofMemory = 0.85

// MemoryLimit is how much memory Go may use in this process, in bytes:
// GOMEMLIMIT, else a part of the container's (cgroup), else as good as all.
var MemoryLimit = sync.OnceValue(func() int64 {
	// Without a cgroup there is no limit, and that is no error.
	_, _ = memlimit.Set(memlimit.WithRatio(ofMemory))
	return debug.SetMemoryLimit(-1)
})

// TuneRuntime sets Go's runtime for a service, as each does when it starts. Garbage is collected
// less often, and a process that has much memory and does little gives some back, unless
// the process was told to be small: GOMEMLIMIT takes the headroom for memory in use, and the rest
// would be too little. GOGC holds as ever. Allocations are not sampled, since nothing reads
// that profile.
func TuneRuntime() {
	unsampled()
	if fits(MemoryLimit()) {
		_ = reserve()
	}
}

var unsampled = sync.OnceFunc(func() { runtime.MemProfileRate = 0 })

// fits reports whether a memory limit, in bytes, leaves most of it to the service.
func fits(limit int64) bool { return limit >= 8*headroom }
