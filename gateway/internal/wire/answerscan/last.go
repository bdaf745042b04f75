package answerscan

import (
	"io"
	"net/http"
	"slices"

	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
)

// lastEvents are the last events of streams. OpenAI's and Anthropic's SDKs hang up once
// they have read one, before the body ends.
var lastEvents = func() (names []string) {
	for _, f := range formats.All {
		names = append(names, f.LastEvents...)
	}
	return names
}()

// lastMembers are the members that are true in the last document of a stream.
var lastMembers = func() *Names {
	var names []string
	for _, f := range formats.All {
		if f.LastMember != "" {
			names = append(names, f.LastMember)
		}
	}
	return NamesOf(names...)
}()

// Last returns the body of a stream, and sets seen when its last event is read.
func Last(res *http.Response, seen *bool) io.ReadCloser { return Watch(res, last{seen}) }

type last struct{ seen *bool }

func (l last) Event(name []byte) { *l.seen = *l.seen || slices.Contains(lastEvents, string(name)) }

func (l last) Literal(at *Place, text []byte) {
	*l.seen = *l.seen || at.Stream && at.Depth() == 1 && string(text) == "true" && lastMembers.has(at.Name())
}

func (last) Names() *Names       { return lastMembers }
func (last) Document()           {}
func (last) Text(*Place, []byte) {}
func (last) Object(*Place) int   { return 0 }
func (last) JSON(*Place, []byte) {}
func (last) Closed(*Place)       {}
func (last) End(bool)            {}
