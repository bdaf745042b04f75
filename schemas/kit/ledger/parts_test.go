package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// listed is how many numbers a list remembers.
const listed = 5

// list is a record that remembers the newest numbers, oldest first. Each part has those
// of one write.
type list struct {
	parts []listPart
	older []named // parts that are not read yet
}

type listPart struct {
	named
	Numbers []int `json:"numbers"`
}

type named struct {
	Place int    `json:"place"`
	Seq   uint64 `json:"seq"`
}

type stored struct {
	Place   int     `json:"place"`
	Numbers []int   `json:"numbers"`
	Older   []named `json:"older"`
}

func (l *list) numbers() (all []int) {
	for _, p := range l.parts {
		all = append(all, p.Numbers...)
	}
	return all[max(0, len(all)-listed):]
}

// with returns the list with one more number, in a part that is not stored yet.
func (l list) with(n int) list {
	next := list{parts: slices.Clone(l.parts)}
	if i := len(next.parts) - 1; i >= 0 && next.parts[i].Seq == 0 {
		next.parts[i].Numbers = append(slices.Clone(next.parts[i].Numbers), n)
	} else {
		next.parts = append(next.parts, listPart{Numbers: []int{n}})
	}
	for len(next.parts) > 1 && len(next.all())-len(next.parts[0].Numbers) >= listed {
		next.parts = next.parts[1:]
	}
	newest := &next.parts[len(next.parts)-1]
	newest.Place = 0
	for slices.ContainsFunc(next.parts[:len(next.parts)-1], func(p listPart) bool { return p.Place == newest.Place }) {
		newest.Place++
	}
	return next
}

func (l list) all() (all []int) {
	for _, p := range l.parts {
		all = append(all, p.Numbers...)
	}
	return all
}

func (l *list) Append(b []byte) []byte {
	newest := l.parts[len(l.parts)-1]
	out := stored{Place: newest.Place, Numbers: newest.Numbers}
	for _, p := range l.parts[:len(l.parts)-1] {
		out.Older = append(out.Older, p.named)
	}
	body, _ := json.Marshal(out)
	return append(b, body...)
}

func (l *list) Parse(b []byte) error {
	var in stored
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*l = list{parts: []listPart{{named{Place: in.Place}, in.Numbers}}, older: in.Older}
	return nil
}

func (l *list) Slot() string      { return strconv.Itoa(l.parts[len(l.parts)-1].Place) }
func (l *list) Stored(seq uint64) { l.parts[len(l.parts)-1].Seq = seq }

func (l *list) Missing(seen list) (missing []uint64) {
	for _, o := range l.older {
		i := slices.IndexFunc(seen.parts, func(p listPart) bool { return p.Seq == o.Seq })
		if i < 0 {
			missing = append(missing, o.Seq)
			continue
		}
		l.parts = append(l.parts, seen.parts[i])
	}
	l.sort()
	return missing
}

func (l *list) Add(seq uint64, b []byte) {
	var in stored
	i := slices.IndexFunc(l.older, func(o named) bool { return o.Seq == seq })
	if json.Unmarshal(b, &in) == nil && i >= 0 {
		l.parts = append(l.parts, listPart{l.older[i], in.Numbers})
		l.sort()
	}
}

func (l *list) sort() {
	slices.SortFunc(l.parts, func(a, b listPart) int { return int(a.Seq) - int(b.Seq) })
}

func (l *list) Size() int { return 8 * len(l.all()) }

func (l *list) Whole() list { return list{parts: []listPart{{Numbers: l.all()}}} }

func openList(t testing.TB, s *natstest.Server) *Ledger[list, *list] {
	t.Helper()
	return New[list](s.Service(), schemas.BucketVectors, nil)
}

func startWithVectors(t testing.TB) *natstest.Server {
	t.Helper()
	s := natstest.Start(t)
	cfg := s.Layout().History(schemas.BucketVectors, 16<<20)
	cfg.AllowDirect = false
	if _, err := s.JetStream().CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

// Whichever processes write, and however many at once: each write sees all that were
// stored before it, and the newest numbers are remembered.
func TestWritesToPartsMissNothing(t *testing.T) {
	t.Parallel()
	s := startWithVectors(t)
	ledgers := []*Ledger[list, *list]{openList(t, s), openList(t, s), openList(t, s)}
	reader := openList(t, s) // writes nothing
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		key := fmt.Sprintf("run%d", run)
		writers := rapid.SliceOfN(rapid.IntRange(0, 2), 1, 30).Draw(rt, "writers")
		atOnce := rapid.IntRange(1, 8).Draw(rt, "at once")
		var mu sync.Mutex
		var order []int // as they were stored
		n := 0
		for group := range slices.Chunk(writers, atOnce) {
			var wg sync.WaitGroup
			for _, w := range group {
				n++
				number := n
				wg.Go(func() {
					var before []int
					err := ledgers[w].Apply(t.Context(), key, func(l list) (list, time.Duration) {
						before = l.numbers()
						return l.with(number), time.Minute
					})
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Errorf("apply: %v", err)
					}
					if len(before) < min(len(order), listed)-atOnce {
						t.Errorf("write %d saw %v of %v", number, before, order)
					}
				})
			}
			wg.Wait()
			got, err := reader.Read(t.Context(), key)
			if err != nil {
				rt.Fatal(err)
			}
			order = append(order, got.numbers()[max(0, len(got.numbers())-len(group)):]...)
			if want := order[max(0, len(order)-listed):]; !slices.Equal(got.numbers(), want) {
				rt.Fatalf("%v are remembered after %v", got.numbers(), order)
			}
		}
		sorted := slices.Sorted(slices.Values(order))
		if atOnce <= listed && len(slices.Compact(sorted)) != n {
			rt.Fatalf("%d numbers, stored were %v", n, order)
		}
	})
}

// A write carries what is new, and takes the slot of what is no longer remembered.
func TestAWriteOfAPartCarriesWhatIsNew(t *testing.T) {
	t.Parallel()
	s := startWithVectors(t)
	l := openList(t, s)
	for n := range 20 {
		if err := l.Apply(t.Context(), "k", func(l list) (list, time.Duration) { return l.with(n), time.Minute }); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := s.JetStream().Stream(t.Context(), "KV_"+schemas.BucketVectors)
	if err != nil {
		t.Fatal(err)
	}
	if held := stream.CachedInfo().State; held.Msgs != listed || held.LastSeq != 20 {
		t.Errorf("%d parts are stored after %d writes, want %d", held.Msgs, held.LastSeq, listed)
	}
	if got, err := openList(t, s).Read(t.Context(), "k"); err != nil || !slices.Equal(got.numbers(), []int{15, 16, 17, 18, 19}) {
		t.Errorf("another process reads %v, %v", got.numbers(), err)
	}
}
