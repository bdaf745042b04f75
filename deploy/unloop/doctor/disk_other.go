//go:build !linux && !darwin

package doctor

// freeBytes is known on Linux and macOS alone.
func freeBytes(string) (uint64, bool) { return 0, false }
