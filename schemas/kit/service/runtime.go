package service

import (
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// headroom is the size of an allocation, in bytes, that the garbage collector counts as live
// memory (a "ballast"). A service has some ten MiB of live memory and makes garbage with
// every request; by default the collector would run whenever that doubles, which is all the
// time. The allocation is never written to, so it takes no physical memory. Garbage grows by
// at most twice headroom.
//
// A higher GOGC (debug.SetGCPercent) multiplies instead: one that saves as many collections
// at 10 MiB of live memory lets the heap grow to 1.8 GiB at 200 MiB; with headroom it grows
// to 0.5 GiB.
const headroom = 64 << 20

var reserve = sync.OnceValue(func() []byte {
	returnMemory()
	return make([]byte, headroom)
})

// ofMemory is the share of the container's memory for Go. The rest is for memory that Go does
// not count: thread stacks, mapped files, the network.
const ofMemory = 0.85

// MemoryLimit returns Go's memory limit for this process in bytes: GOMEMLIMIT, else a share
// of the container's (cgroup), else practically none.
var MemoryLimit = sync.OnceValue(func() int64 {
	// Without a cgroup there is no limit, and that is no error.
	_, _ = memlimit.Set(memlimit.WithRatio(ofMemory))
	return debug.SetMemoryLimit(-1)
})

// TuneRuntime tunes Go's runtime for a service at its start. Garbage is collected less often,
// and an idle process returns memory, unless its memory limit is small: GOMEMLIMIT counts the
// headroom as memory in use. Allocations are not sampled, since nothing reads that profile.
func TuneRuntime() {
	unsampled()
	if fits(MemoryLimit()) {
		_ = reserve()
	}
}

var unsampled = sync.OnceFunc(func() { runtime.MemProfileRate = 0 })

// fits reports whether the headroom is a small part of a memory limit in bytes.
func fits(limit int64) bool { return limit >= 8*headroom }
