package service

import "testing"

func TestMemoryIsReturnedWhereMuchIsLiveAndLittleIsDone(t *testing.T) {
	t.Parallel()
	const mebi = 1 << 20
	for _, c := range []struct {
		name             string
		live, held, rate uint64
		want             bool
	}{
		{"before the first collection", 0, 300, 0, false},
		{"a service, idle", 104, 208, 0, false},
		{"a million records, idle", 320, 640, 0, true},
		{"a million records, some hundred requests a second", 320, 640, 4, true},
		{"a million records, returned before", 224, 250, 0, false},
		{"a million records, some thousand requests a second", 320, 640, 30, false},
		{"a million records that are being written", 320, 640, 200, false},
	} {
		h := heap{live: c.live * mebi, held: c.held * mebi}
		if got := h.wastes(float64(c.rate * mebi)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestHeapIsReadWithItsHeadroom(t *testing.T) {
	t.Parallel()
	TuneRuntime()
	before := readHeap()
	if before.allocated < headroom || before.held < headroom {
		t.Errorf("%+v, want at least %d allocated and held", before, headroom)
	}
	if now := readHeap(); now.allocated < before.allocated {
		t.Errorf("allocated %d, before %d", now.allocated, before.allocated)
	}
}
