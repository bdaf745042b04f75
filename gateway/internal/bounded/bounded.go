// Package bounded keeps maps that remember the latest traffic from growing without
// end. It does not know what they remember.
package bounded

// MakeRoom removes any entry of a map that holds limit entries, unless the map has
// the key.
func MakeRoom[K comparable, V any](m map[K]V, key K, limit int) {
	if _, known := m[key]; known || len(m) < limit {
		return
	}
	for old := range m {
		delete(m, old)
		return
	}
}
