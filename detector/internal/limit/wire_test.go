package limit

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/unloop/unloop/detector/internal/hitid"
)

// Records of budgets and breakers have their least size from the first, so that a compact
// one, whatever its numbers, replaces a stored one in a bucket without room.
func TestACompactRecordIsNoLargerThanTheFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number, at := rapid.Float64(), rapid.Int64Range(1, 9_999_999_999_999)
		s := State{At: at.Draw(t, "at"), IDs: "abcdefgh", Asked: []Asked{{hitid.Mark("a"), number.Draw(t, "cost"), at.Draw(t, "asked")}}}
		if rapid.Bool().Draw(t, "budget") {
			s.Level, s.Period, s.Spent = number.Draw(t, "level"), at.Draw(t, "period"), number.Draw(t, "spent")
		} else {
			s.Minute, s.Current, s.Previous, s.Opened = at.Draw(t, "minute"), number.Draw(t, "current"), number.Draw(t, "previous"), at.Draw(t, "opened")
		}
		first, many := s.Append(nil), s
		if len(first) != minSize {
			t.Fatalf("%d bytes: %s", len(first), first)
		}
		for range 100 {
			many.IDs, many.Asked = "12345678"+many.IDs, append(many.Asked, s.Asked...)
		}
		full := many.Fit(true)
		if got := full.Append(nil); len(got) >= minSize || full.IDs != s.IDs || len(full.Asked) != 1 {
			t.Errorf("a compact one has %d bytes: %s", len(got), got)
		}
		if again := full.Fit(false).Append(nil); len(again) != minSize {
			t.Errorf("with room again it has %d bytes: %s", len(again), again)
		}
		var read State
		if err := read.Parse(first); err != nil || read.At != s.At || read.Spent != s.Spent || read.Current != s.Current {
			t.Errorf("read: %+v, %v", read, err)
		}
	})
}
