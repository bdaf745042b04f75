package answers

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/answerscan"
)

// silent is a watcher that only bounds what it hears.
type silent struct{ t *testing.T }

func (s silent) ID(id string) {
	if len(id) > 1<<16 {
		s.t.Errorf("an id of %d bytes", len(id))
	}
}
func (silent) Item([]byte) {}
func (silent) Whole()      {}
func (silent) Failed()     {}

// FuzzWatch has whatever an upstream may answer pass, in each encoding: every byte
// passes as it came.
func FuzzWatch(f *testing.F) {
	f.Add([]byte(`{"id":"resp_1","output":[{"type":"function_call","call_id":"c"}]}`), true)
	f.Add([]byte("data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\nevent: error\ndata: {\"error\":{}}\n\n"), true)
	f.Fuzz(func(t *testing.T, body []byte, items bool) {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			for _, coding := range []string{"", "gzip", "zstd", "deflate", "br", "?"} {
				res := &http.Response{
					Header: http.Header{"Content-Type": {kind}, "Content-Encoding": {coding}},
					Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
				}
				watched := answerscan.Watch(res, Follow(items, silent{t}))
				got, err := io.ReadAll(watched)
				if err != nil || !bytes.Equal(got, body) || watched.Close() != nil {
					t.Errorf("%s, %s: %q passes as %q, %v", kind, coding, body, got, err)
				}
			}
		}
	})
}
