//go:build !race

package bytetime

// small and large are the sizes of inputs, in bytes. A large one is as large as a gateway
// inspects.
const small, large = 1 << 20, 8 << 20
