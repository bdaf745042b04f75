package logs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/replay/logs"
)

var noon = time.Date(2026, 5, 22, 12, 0, 0, 0, time.UTC)

func TestRequestsComeInTheOrderOfTheirTimes(t *testing.T) {
	t.Parallel()
	body := []byte("lent")
	in := func(yield func(logs.Request, error) bool) {
		for i, minute := range []int{3, 1, 2, 1, -1, 0, -2, 9, 8} {
			q := logs.Request{Line: i, Body: body, Time: noon.Add(time.Duration(minute) * time.Minute)}
			var err error
			switch minute {
			case -1:
				q.Time = time.Time{}
			case -2:
				err = errors.New("broken")
			}
			if !yield(q, err) {
				return
			}
			copy(body, "----")
			copy(body, "lent")
		}
	}
	var got []int
	for q, err := range logs.InOrder(in) {
		got = append(got, q.Line)
		if err == nil && string(q.Body) != "lent" {
			t.Errorf("body %q", q.Body)
		}
	}
	if diff := cmp.Diff([]int{1, 3, 2, 0, 4, 5, 6, 8, 7}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	for q, err := range logs.InOrder(in) {
		if q.Line != 1 || err != nil {
			t.Errorf("first %d, %v", q.Line, err)
		}
		break // it must not go on
	}
}
