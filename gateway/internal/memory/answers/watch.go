package answers

import "github.com/unloop/unloop/gateway/internal/wire/answerscan"

// maxItem is the maximum length, in bytes, of an item that is reported: the arguments of
// longer ones hardly ever repeat.
const maxItem = 1 << 20

// Watcher receives the parts of an answer, each before the client can read that far.
type Watcher interface {
	// ID reports the answer's id, once.
	ID(id string)
	// Item reports an item of the answer's output, as JSON that is valid until the call
	// returns. Streams repeat an item; the last time it is complete.
	Item(json []byte)
	// Whole reports that all items have come. It is not called for a stream that breaks
	// off.
	Whole()
	// Failed reports, once, an error of the upstream instead of an answer or within one.
	Failed()
}

// Follow returns a scan's watcher for answers of the Responses API, which reports to w.
// Without items it reports only the id and failures.
func Follow(items bool, w Watcher) answerscan.Watcher {
	return &follower{failures: failures{failed: w.Failed}, items: items, to: w}
}

// The member names to look for: for failures alone, for those and items, and for all.
var (
	failing  = answerscan.NamesOf("error")
	inItems  = answerscan.NamesOf("error", "item", "output", "response")
	nameless = answerscan.NamesOf("error", "id", "item", "output", "response")
)

// follower finds the id and the items of an answer, and its failures.
type follower struct {
	failures
	items bool // items are wanted
	came  bool // items came since the last call of Whole
	named bool // the id is known
	to    Watcher
}

func (f *follower) Names() *answerscan.Names {
	switch {
	case !f.named:
		return nameless
	case f.items:
		return inItems
	}
	return failing
}

func (f *follower) Text(at *answerscan.Place, text []byte) {
	if !f.named && (at.Is("id") || at.Is("response", "id")) {
		f.named = true
		f.to.ID(string(text))
		return
	}
	f.failures.Text(at, text)
}

func (f *follower) Object(at *answerscan.Place) int {
	if f.items && (at.Is("item") || at.Is("output", answerscan.Element) || at.Is("response", "output", answerscan.Element)) {
		return maxItem
	}
	return f.failures.Object(at)
}

func (f *follower) JSON(_ *answerscan.Place, object []byte) {
	f.came = true
	f.to.Item(object)
}

func (f *follower) Closed(at *answerscan.Place) { f.End(at.Depth() == 0 || at.Is("response")) }

func (f *follower) End(whole bool) {
	if whole && f.came {
		f.came = false
		f.to.Whole()
	}
}

// Failures returns a scan's watcher for answers in any format, which calls failed, once, for
// an error instead of an answer or within one.
func Failures(failed func()) answerscan.Watcher { return &failures{failed: failed} }

type failures struct {
	failed func() // nil once it was called
}

func (f *failures) Event(name []byte) {
	if string(name) == "error" {
		f.fail()
	}
}

func (f *failures) Text(at *answerscan.Place, text []byte) {
	if isError(at) || at.Is("type") && string(text) == "error" {
		f.fail()
	}
}

func (f *failures) Object(at *answerscan.Place) int {
	if isError(at) {
		f.fail()
	}
	return 0
}

func (*failures) Names() *answerscan.Names          { return failing }
func (*failures) Document()                         {}
func (*failures) Literal(*answerscan.Place, []byte) {}
func (*failures) JSON(*answerscan.Place, []byte)    {}
func (*failures) Closed(*answerscan.Place)          {}
func (*failures) End(bool)                          {}

// isError reports whether a value is the error of an answer, of an event, or of a document
// in a list.
func isError(at *answerscan.Place) bool {
	return at.Is("error") || at.Is("response", "error") || at.Is(answerscan.Element, "error")
}

func (f *failures) fail() {
	if failed := f.failed; failed != nil {
		f.failed = nil
		failed()
	}
}
