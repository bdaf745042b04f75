package answers

import "github.com/unloop/unloop/gateway/internal/answerscan"

// maxItem bounds an item of an answer that is looked at, in bytes. Items that are longer
// are passed over: their arguments are all but never repeated.
const maxItem = 1 << 20

// Watcher is told what is in an answer before the client can read so far.
type Watcher interface {
	// ID is the answer's id; it comes first, and once.
	ID(id string)
	// Item is one item of the answer's output, as JSON that is valid until the call
	// returns. Streams bring one several times, complete the last time.
	Item(json []byte)
	// Whole says that all items have come. It is not called for a stream that breaks off.
	Whole()
	// Failed says, once, that the upstream put an error in the answer's place, or
	// broke it off with one.
	Failed()
}

// Follow returns a reader of an answer in the format of Responses, which reports to w:
// without items, the id and failures alone.
func Follow(items bool, w Watcher) answerscan.Watcher {
	return &follower{failures: failures{failed: w.Failed}, items: items, to: w}
}

// follower finds the id and the items of an answer, and its failures.
type follower struct {
	failures
	items bool // are wanted
	came  bool // some have, since Whole was called
	named bool // the id is known
	to    Watcher
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

// Failures returns a reader of an answer in any of the formats, which calls failed, once,
// where an error stands in the answer's place or in the middle of its stream.
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

func (*failures) JSON(*answerscan.Place, []byte) {}
func (*failures) Closed(*answerscan.Place)       {}
func (*failures) End(bool)                       {}

// isError says whether a value is the error of an answer, of an event or of one of a list
// of documents. Where there is none it is null.
func isError(at *answerscan.Place) bool {
	return at.Is("error") || at.Is("response", "error") || at.Is(answerscan.Element, "error")
}

func (f *failures) fail() {
	if failed := f.failed; failed != nil {
		f.failed = nil
		failed()
	}
}
