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

// Last returns the body of a stream, and sets seen when its last event is read.
func Last(res *http.Response, seen *bool) io.ReadCloser { return Watch(res, last{seen}) }

type last struct{ seen *bool }

func (l last) Event(name []byte) { *l.seen = *l.seen || slices.Contains(lastEvents, string(name)) }

func (last) Text(*Place, []byte) {}
func (last) Object(*Place) int   { return 0 }
func (last) JSON(*Place, []byte) {}
func (last) Closed(*Place)       {}
func (last) End(bool)            {}
