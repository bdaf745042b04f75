package usage

import (
	"maps"
	"slices"

	"github.com/unloop/unloop/gateway/internal/wire/answerscan"
)

// maxObject bounds a usage object, in bytes; the largest known ones have some hundreds.
const maxObject = 8 << 10

// Meter returns a scan's watcher for the usage of an answer in any of the formats. It calls
// done at the end of the answer, with the usage if there was any. If the client leaves or
// the upstream breaks off, it calls done with the usage so far, or not at all.
func Meter(done func(u Usage, found bool)) answerscan.Watcher { return &meter{done: done} }

// meter adds up the usage that an answer reports.
type meter struct {
	done  func(Usage, bool)
	usage Usage
	found bool
	// since counts the events of a stream behind the last report of usage.
	since int
}

// wanted are the names of what a meter reads.
var wanted = func() *answerscan.Names {
	all := slices.Collect(maps.Keys(objects))
	for name, counts := range names {
		if counts&own != 0 {
			all = append(all, name)
		}
	}
	return answerscan.NamesOf(all...)
}()

func (*meter) Names() *answerscan.Names { return wanted }

func (m *meter) Document() { m.since++ }

// Object accepts the usage objects of the formats. They are in the answer, or in the
// response or message of a stream's event; with some Chat Completions providers in one of
// the choices. Objects that a model wrote are deeper.
func (m *meter) Object(at *answerscan.Place) int {
	if objects[string(at.Name())] && (at.Depth() < answerscan.MaxDepth || at.Is("choices", answerscan.Element, answerscan.Any)) {
		return maxObject
	}
	return 0
}

func (m *meter) JSON(_ *answerscan.Place, object []byte) {
	if u, ok := parse(object); ok {
		m.report(u)
	}
}

func (m *meter) report(u Usage) { m.usage, m.found, m.since = m.usage.merge(u), true, 0 }

// End reports the usage. If a stream is not read to its end, each event after the last
// report counts as one output token.
func (m *meter) End(whole bool) {
	if !whole {
		m.usage.Output += m.since
	}
	if whole || m.found {
		m.done(m.usage, m.found)
	}
}

// Literal accepts the tokens that an answer counts beside its text.
func (m *meter) Literal(at *answerscan.Place, text []byte) {
	if counts := names[string(at.Name())]; at.Depth() == 1 && counts&own != 0 {
		var u Usage
		u.count(counts, text)
		if u != (Usage{}) {
			m.report(u)
		}
	}
}

func (*meter) Event([]byte)                   {}
func (*meter) Text(*answerscan.Place, []byte) {}
func (*meter) Closed(*answerscan.Place)       {}
