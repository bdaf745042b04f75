package rounds

import (
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/toolname"
)

// Again reports whether the newest round of a history repeats the calls and results of an
// earlier one although something new happened in between: the same test after another edit,
// the same wait while a job runs, or a human's repeated request.
func Again(items []Item) bool {
	n := len(items) - 1
	if n < 2 || len(items[n].Calls) == 0 || !repeats(items[:n], &items[n].Calls[0]) {
		return false
	}
	m := memory{heard: map[fingerprint.Digest]bool{}, results: map[fingerprint.Digest]fingerprint.Digest{}, at: map[effect]int{}}
	news := -1
	for i := range n {
		if m.take(i, &items[i]) {
			news = i
		}
	}
	for _, c := range items[n].Calls {
		if before, ok := m.at[effect{c.Key, c.Result}]; !ok || c.Result.IsZero() || before >= news {
			return false
		}
	}
	return true
}

// repeats reports whether an earlier call is that of c, with the same result: most are not.
func repeats(earlier []Item, c *message.ToolCall) bool {
	for i := range earlier {
		for k := range earlier[i].Calls {
			if o := &earlier[i].Calls[k]; o.Key == c.Key && o.Result == c.Result {
				return true
			}
		}
	}
	return false
}

// effect is a call with its result.
type effect struct{ call, result fingerprint.Digest }

// memory is what a history has shown up to an item: the human messages, the last result
// of each call, and the index at which each effect occurred last.
type memory struct {
	heard   map[fingerprint.Digest]bool
	results map[fingerprint.Digest]fingerprint.Digest
	at      map[effect]int
}

// take adds the i-th item, and reports whether it is news: a human message that was not
// sent before, a new call that succeeded and is not a poll and no thought, or a new result
// of a known call.
func (m *memory) take(i int, it *Item) (news bool) {
	if len(it.Calls) == 0 {
		news = !it.Summary && !m.heard[it.Human]
		m.heard[it.Human] = true
		return news
	}
	for _, c := range it.Calls {
		last, made := m.results[c.Key]
		works := !c.Failed && !c.Poll && !toolname.IsThought(c.Tool)
		news = news || !c.Result.IsZero() && (made && last != c.Result || !made && works)
		m.results[c.Key], m.at[effect{c.Key, c.Result}] = c.Result, i
	}
	return news
}
