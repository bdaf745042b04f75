package fair

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func always(string) bool { return true }

func TestCallersTakeTurnsAndKeepTheirOrder(t *testing.T) {
	t.Parallel()
	var q Queue[string]
	for _, v := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "c1"} {
		q.Push(Caller(v[0]), v)
	}
	if q.LenOf('a') != 4 || q.LenOf('d') != 0 {
		t.Errorf("%d values of a wait, and %d of d", q.LenOf('a'), q.LenOf('d'))
	}
	var got []string
	for {
		v, found := q.Pop(always)
		if !found {
			break
		}
		if got = append(got, v); v == "a2" {
			q.Push('d', "d1")
		}
	}
	if want := []string{"a1", "b1", "c1", "a2", "b2", "a3", "d1", "a4"}; !slices.Equal(got, want) {
		t.Errorf("they came in the order %v, want %v", got, want)
	}
}

func TestOneThatIsNotReadyHoldsUpItsOwnCallerAlone(t *testing.T) {
	t.Parallel()
	var q Queue[int]
	q.Push('a', 100)
	q.Push('a', 1)
	q.Push('b', 2)
	small := func(v int) bool { return v < 100 }
	if v, found := q.Pop(small); !found || v != 2 {
		t.Errorf("%d came, %t", v, found)
	}
	if v, found := q.Pop(small); found {
		t.Errorf("%d passed the one before it", v)
	}
}

// However many callers wait, a call looks at a bounded number of them, and the next one at
// others.
func TestABoundedNumberOfCallersIsLookedAt(t *testing.T) {
	t.Parallel()
	var q Queue[int]
	const callers, most = 1000, 100
	for i := range callers {
		q.Push(Caller(i), i)
	}
	looked, calls := 0, 0
	last := func(v int) bool { looked++; return v == callers-1 }
	for found := false; !found; calls++ {
		_, found = q.PopWithin(most, last)
	}
	if looked != callers || calls != callers/most {
		t.Errorf("%d values were looked at in %d calls", looked, calls)
	}
	if v, found := q.PopWithin(most, func(int) bool { return true }); !found || v != 0 {
		t.Errorf("then %d came instead of the one that waits the longest, %t", v, found)
	}
	q = Queue[int]{}
	for i := range most {
		q.Push(Caller(i), i)
	}
	_, _ = q.PopWithin(most, func(int) bool { return false })
	if v, _ := q.PopWithin(most, func(int) bool { return true }); v != 0 {
		t.Errorf("the caller that waits the longest has lost its turn to %d", v)
	}
}

func TestValuesThatGiveUpLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[int]
		var places []Place
		for i := range rapid.IntRange(0, 30).Draw(t, "values") {
			places = append(places, q.Push(Caller(rapid.IntRange(0, 3).Draw(t, "caller")), i))
		}
		for _, i := range rapid.Permutation(slices.Clone(places)).Draw(t, "order") {
			q.Remove(i)
		}
		if q.Len() != 0 || len(q.lines) != 0 || q.order.Len() != 0 {
			t.Errorf("%d values, %d callers and %d turns are left", q.Len(), len(q.lines), q.order.Len())
		}
	})
}

func TestEachCallerLeavesSomeForTheNext(t *testing.T) {
	t.Parallel()
	const room = 1 << 20
	free := int64(room)
	for callers := range 16 {
		own := int64(0)
		for May(own, 1, free) {
			own++
			free--
		}
		if own == 0 || free == 0 {
			t.Fatalf("caller %d has %d, and %d are free", callers+1, own, free)
		}
		if callers == 0 && own != Most(room) {
			t.Errorf("the first caller has %d, and at most %d", own, Most(room))
		}
	}
}
