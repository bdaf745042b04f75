//go:build race

package bytetime

// small and large are the sizes of inputs, in bytes, for the race detector, which takes ten
// times as long.
const small, large = 128 << 10, 1 << 20
