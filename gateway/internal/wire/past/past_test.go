package past

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
func read(c Caller, text []byte, ends []int) (from, known int) {
	r := c.Open(text)
	state := func(c *offsets.Coder) { c.Int(&known) }
	if r == nil {
		return 0, len(ends)
	}
	from = r.Resume(listAt, state)
	for i, end := range ends {
		if end > from {
			known++
			r.Mark(end, i == len(ends)-1, state)
		}
	}
	r.Close()
	return from, known
}

func TestBodiesAreReadOnFromTheEndOfWhatIsTheSame(t *testing.T) {
	t.Parallel()
	bounds := Bounds{Least: 100, Begins: 16, Step: 100, Share: 1 << 20, Marks: 100, Bytes: 1 << 20}
	caller := NewBook(bounds).Of("a")
	text, ends := body("x", 10)
	for _, c := range []struct{ n, from, known int }{{10, 0, 10}, {10, ends[9], 10}, {12, ends[9], 12}, {20, 0, 20}} {
		text, ends := body("x", c.n)
		if c.n == 20 {
			text, ends = body("y", c.n)
		}
		if from, known := read(caller, text, ends); from != c.from || known != c.known {
			t.Errorf("%d elements: from %d, %d are known; want %d and %d", c.n, from, known, c.from, c.known)
		}
	}
	text[ends[8]+3]++ // the newest one changes
	if from, known := read(caller, text, ends); from < ends[5] || from > ends[8] || known != 10 {
		t.Errorf("from %d, %d are known", from, known)
	}
	if r := NewBook(DefaultBounds()).Of("a").Open(text); r != nil {
		t.Error("a small body is remembered")
	}
	if r := (Caller{}).Open(text); r != nil {
		t.Error("nobody remembers")
	}
}

func TestElementsThatMayGoOnAreNoPlaceToReadOn(t *testing.T) {
	t.Parallel()
	r := NewBook(Bounds{Least: 1, Begins: 8, Step: 1, Share: 1, Marks: 9, Bytes: 1 << 20}).Of("a").Open([]byte(`{"aaaaaa":[1,"bbbbbbbb",12]}`))
	r.Resume(9, func(*offsets.Coder) {})
	for _, end := range []int{12, 23, 26} {
		r.Mark(end, true, func(*offsets.Coder) { t.Errorf("a place at %d", end) })
	}
}

func TestTheSizeOfPiecesIsThatOfTheWhole(t *testing.T) {
	t.Parallel()
	caller := NewBook(Bounds{Least: 1, Begins: 8, Step: 1, Share: 1 << 20, Marks: 9, Bytes: 1 << 20}).Of("a")
	picture := `{"n":"` + "iVBORw0KGgo" + strings.Repeat("A", 4001) + `"}`
	text := []byte(`{"name":"xxxxxxxx","list":[` + picture + `,{"n":"text"},` + picture + `],"more":"text"}`)
	for range 2 {
		r := caller.Open(text)
		from := r.Resume(listAt, func(*offsets.Coder) {})
		for _, end := range []int{listAt + 1 + len(picture), listAt + 1 + len(picture) + len(`,{"n":"text"}`)} {
			if end > from {
				r.Mark(end, false, func(*offsets.Coder) {})
			}
		}
		if got, want := r.Close(), size.Of(text); got != want || want.Media == 0 {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestABookForgetsWhatWasNotUsedForLong(t *testing.T) {
	t.Parallel()
	bounds := Bounds{Least: 100, Begins: 16, Step: 1 << 20, Share: 1, Marks: 5, Bytes: 20 * (overhead + 1)}
	book := NewBook(bounds)
	first, firstEnds := body("x", 10)
	read(book.Of("first"), first, firstEnds)
	for i := range 100 {
		text, ends := body("x", 10)
		read(book.Of(fmt.Sprint(i)), text, ends)
		if from, _ := read(book.Of("first"), first, firstEnds); from == 0 {
			t.Fatal("what is used is forgotten")
		}
	}
	for n := range 50 { // one caller, and bodies that begin alike
		text, ends := body("x", 10+n)
		read(book.Of("other"), text, ends)
	}
	marks := 0
	for _, like := range book.like {
		marks += len(like)
		if len(like) > bounds.Marks {
			t.Errorf("%d marks of bodies that begin alike", len(like))
		}
	}
	if book.bytes > bounds.Bytes || marks != book.used.Len() || marks*(overhead+1) != book.bytes || marks < 5 {
		t.Errorf("%d bytes, %d marks, %d used", book.bytes, marks, book.used.Len())
	}
	if text, ends := body("x", 10); true {
		if from, _ := read(book.Of("1"), text, ends); from > 0 {
			t.Error("what was not used is known")
		}
	}
}

func TestABookIsUsedByManyAtOnce(t *testing.T) {
	t.Parallel()
	book := NewBook(Bounds{Least: 100, Begins: 16, Step: 1, Share: 1 << 20, Marks: 5, Bytes: 30 * (overhead + 1)})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 100 {
				text, ends := body("x", 5+n%20)
				if _, known := read(book.Of(fmt.Sprint(i%3)), text, ends); known != len(ends) {
					t.Errorf("%d elements are known, want %d", known, len(ends))
				}
			}
		})
	}
	all.Wait()
}
