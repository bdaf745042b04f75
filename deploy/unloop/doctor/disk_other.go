//go:build !linux && !darwin

package doctor

// freeBytes knows no disk of this system.
func freeBytes(string) (uint64, bool) { return 0, false }
