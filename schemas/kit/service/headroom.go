package service

import (
	"runtime/debug"
	"sync"
)

// headroom is what the garbage collector takes for live memory beside what is,
// in bytes. A service holds some ten MiB and makes garbage with every request;
// the collector, which by default runs whenever that has doubled, would run all
// the time. Nothing is ever written to it, so the system gives no memory for
// it; what it costs is garbage that waits longer, at most twice as much as this.
const headroom = 64 << 20

var reserve = sync.OnceValue(func() []byte { return make([]byte, headroom) })

// Headroom makes garbage collections rarer in this process, from now on, unless
// it was told to be small: GOMEMLIMIT takes the headroom for memory in use, and
// the rest would be too little. GOGC holds as ever. Services do it as they start.
func Headroom() {
	if fits(debug.SetMemoryLimit(-1)) {
		_ = reserve()
	}
}

// fits says whether a memory limit, in bytes, leaves most of it to the service.
func fits(limit int64) bool { return limit >= 8*headroom }
