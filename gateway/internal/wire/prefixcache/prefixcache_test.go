package prefixcache

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/offsets"
	"github.com/unloop/unloop/gateway/internal/wire/size"
)

// body returns a body whose list has n elements, and the ends of these.
func body(name string, n int) (text []byte, ends []int) {
	text = fmt.Appendf(nil, `{"name":%q,"list":[`, strings.Repeat(name, 8))
	for i := range n {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, `{"n":%q}`, strings.Repeat(fmt.Sprint(i%10), 40))
		ends = append(ends, len(text))
	}
	return append(text, `]}`...), ends
}

const listAt = len(`{"name":"xxxxxxxx","list":`)

// read reads elements up to the end; what is known is their number.
func read(s Scope, text []byte, ends []int) (from, known int) {
	r := s.Open(text)
	state := func(c *offsets.Coder) { c.Int(&known) }
	if r == nil {
		return 0, len(ends)
	}
	from = r.Resume(listAt, state)
	for i, end := range ends {
		if end > from {
			known++
			r.Checkpoint(end, i == len(ends)-1, state)
		}
	}
	r.Close()
	return from, known
}

func TestBodiesAreReadOnFromTheEndOfWhatIsTheSame(t *testing.T) {
	t.Parallel()
	limits := Limits{MinSize: 100, KeySize: 16, MinStep: 100, StepDivisor: 1 << 20, PerKey: 100, Total: 1 << 20}
	scope := New(limits).Scope("a")
	text, ends := body("x", 10)
	for _, c := range []struct{ n, from, known int }{{10, 0, 10}, {10, ends[9], 10}, {12, ends[9], 12}, {20, 0, 20}} {
		text, ends := body("x", c.n)
		if c.n == 20 {
			text, ends = body("y", c.n)
		}
		if from, known := read(scope, text, ends); from != c.from || known != c.known {
			t.Errorf("%d elements: from %d, %d are known; want %d and %d", c.n, from, known, c.from, c.known)
		}
	}
	text[ends[8]+3]++ // the newest one changes
	if from, known := read(scope, text, ends); from < ends[5] || from > ends[8] || known != 10 {
		t.Errorf("from %d, %d are known", from, known)
	}
	if r := New(DefaultLimits()).Scope("a").Open(text); r != nil {
		t.Error("a small body is remembered")
	}
	if r := (Scope{}).Open(text); r != nil {
		t.Error("nobody remembers")
	}
}

func TestElementsThatMayGoOnAreNoPlaceToReadOn(t *testing.T) {
	t.Parallel()
	r := New(Limits{MinSize: 1, KeySize: 8, MinStep: 1, StepDivisor: 1, PerKey: 9, Total: 1 << 20}).Scope("a").Open([]byte(`{"aaaaaa":[1,"bbbbbbbb",12]}`))
	r.Resume(9, func(*offsets.Coder) {})
	for _, end := range []int{12, 23, 26} {
		r.Checkpoint(end, true, func(*offsets.Coder) { t.Errorf("a place at %d", end) })
	}
}

func TestTheSizeOfPiecesIsThatOfTheWhole(t *testing.T) {
	t.Parallel()
	scope := New(Limits{MinSize: 1, KeySize: 8, MinStep: 1, StepDivisor: 1 << 20, PerKey: 9, Total: 1 << 20}).Scope("a")
	picture := `{"n":"` + "iVBORw0KGgo" + strings.Repeat("A", 4001) + `"}`
	text := []byte(`{"name":"xxxxxxxx","list":[` + picture + `,{"n":"text"},` + picture + `],"more":"text"}`)
	for range 2 {
		r := scope.Open(text)
		from := r.Resume(listAt, func(*offsets.Coder) {})
		for _, end := range []int{listAt + 1 + len(picture), listAt + 1 + len(picture) + len(`,{"n":"text"}`)} {
			if end > from {
				r.Checkpoint(end, false, func(*offsets.Coder) {})
			}
		}
		if got, want := r.Close(), size.Of(text); got != want || want.Media == 0 {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestTheLeastRecentlyUsedCheckpointsAreEvicted(t *testing.T) {
	t.Parallel()
	limits := Limits{MinSize: 100, KeySize: 16, MinStep: 1 << 20, StepDivisor: 1, PerKey: 5, Total: 20 * (overhead + 1)}
	cache := New(limits)
	first, firstEnds := body("x", 10)
	read(cache.Scope("first"), first, firstEnds)
	for i := range 100 {
		text, ends := body("x", 10)
		read(cache.Scope(fmt.Sprint(i)), text, ends)
		if from, _ := read(cache.Scope("first"), first, firstEnds); from == 0 {
			t.Fatal("what is used is forgotten")
		}
	}
	for n := range 50 { // one scope, and bodies that begin alike
		text, ends := body("x", 10+n)
		read(cache.Scope("other"), text, ends)
	}
	checkpoints := 0
	for _, like := range cache.byKey {
		checkpoints += len(like)
		if len(like) > limits.PerKey {
			t.Errorf("%d checkpoints of bodies that begin alike", len(like))
		}
	}
	if cache.bytes > limits.Total || checkpoints != cache.lru.Len() || checkpoints*(overhead+1) != cache.bytes || checkpoints < 5 {
		t.Errorf("%d bytes, %d checkpoints, %d used", cache.bytes, checkpoints, cache.lru.Len())
	}
	if text, ends := body("x", 10); true {
		if from, _ := read(cache.Scope("1"), text, ends); from > 0 {
			t.Error("what was not used is known")
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	cache := New(Limits{MinSize: 100, KeySize: 16, MinStep: 1, StepDivisor: 1 << 20, PerKey: 5, Total: 30 * (overhead + 1)})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 100 {
				text, ends := body("x", 5+n%20)
				if _, known := read(cache.Scope(fmt.Sprint(i%3)), text, ends); known != len(ends) {
					t.Errorf("%d elements are known, want %d", known, len(ends))
				}
			}
		})
	}
	all.Wait()
}
