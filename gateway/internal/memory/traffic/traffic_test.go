package traffic

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/schemas/status"
)

// Requests are counted for a minute, by what became of them.
func TestTrafficIsThatOfTheLastMinute(t *testing.T) {
	t.Parallel()
	var tr Minute
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	if tr.Describe(now) != nil {
		t.Error("there is traffic before the first request")
	}
	for i, label := range []string{"allow", "hint", "reject", "degraded", "limit", "exempt"} {
		tr.Note(now.Add(time.Duration(i)*step), label)
	}
	last := now.Add(5 * step)
	want := &status.Traffic{Last: last, Requests: []int{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}, Unchecked: 1, Hinted: 1, Stopped: 2}
	if diff := cmp.Diff(want, tr.Describe(last)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	later := last.Add(time.Hour)
	if diff := cmp.Diff(&status.Traffic{Last: last, Requests: make([]int, status.TrafficSteps)}, tr.Describe(later)); diff != "" {
		t.Errorf("an hour later (-want +got):\n%s", diff)
	}
}
