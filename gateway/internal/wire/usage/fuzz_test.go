package usage

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/answerscan"
	"github.com/unloop/unloop/gateway/internal/wire/size"
)

// FuzzWatch has whatever an upstream may answer pass: every byte passes as it came,
// and no count is below zero.
func FuzzWatch(f *testing.F) {
	f.Add([]byte(`{"usage":{"prompt_tokens":1,"completion_tokens":2}}`))
	f.Add([]byte("data: {\"usage\":{\"input_tokens\":1e9,\"output_tokens\":-2}}\n\n"))
	f.Add([]byte(`{"usageMetadata":{"promptTokenCount":99999999999999999999}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			for _, coding := range []string{"", "gzip", "?"} {
				res := &http.Response{Header: http.Header{"Content-Type": {kind}, "Content-Encoding": {coding}}, Body: io.NopCloser(bytes.NewReader(body))}
				watched := answerscan.Watch(res, Meter(func(u Usage, _ bool) {
					if u.Input < 0 || u.Cached < 0 || u.Output < 0 {
						t.Errorf("%q used %+v", body, u)
					}
				}))
				got, err := io.ReadAll(watched)
				if err != nil || !bytes.Equal(got, body) || watched.Close() != nil {
					t.Errorf("%s, %s: %q passes as %q, %v", kind, coding, body, got, err)
				}
			}
		}
		if size.Of(body).Tokens() < 0 {
			t.Error("a prompt of less than no tokens")
		}
		_ = BoundsOf(body)
	})
}
