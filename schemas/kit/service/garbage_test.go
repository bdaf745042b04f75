package service

import "testing"

func TestGarbageIsBoundedWhereMuchMemoryIsLiveAndLittleIsDone(t *testing.T) {
	t.Parallel()
	const mebi = 1 << 20
	for _, c := range []struct {
		name       string
		live, rate float64
		want       int
	}{
		{"before the first collection", 0, 0, 100},
		{"a service, idle", 84 * mebi, 0, 100},
		{"a service, busy", 84 * mebi, 500 * mebi, 100},
		{"a million records, idle", 224 * mebi, 0, 42},
		{"a million records, some hundred requests a second", 224 * mebi, 4 * mebi, 42},
		{"a million records being written", 320 * mebi, 200 * mebi, 100},
		{"in between", 320 * mebi, 10 * mebi, 39},
		{"gigabytes", 8 << 30, 0, 10},
	} {
		if got := garbagePercent(uint64(c.live), c.rate); got != c.want {
			t.Errorf("%s: GOGC=%d, want %d", c.name, got, c.want)
		}
	}
}
