//go:build !unix

package direct

// supported is false where a connection can't be looked at without waiting for it: the other
// transport takes all requests.
const supported = false

func quiet(uintptr) bool { return false }
