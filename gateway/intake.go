package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/request"
)

// claim is the most that a header alone is believed: longer bodies are given
// room as they come.
const claim = 1 << 20

// errTooLarge says that a body goes on behind its limit.
var errTooLarge = errors.New("body too large to inspect")

// readBody reads a request's body if it has at most limit bytes.
func readBody(r *http.Request, limit int64) (*request.Body, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return &request.Body{}, nil
	}
	b := &request.Body{Length: r.ContentLength}
	hold := limit
	if r.ContentLength > limit {
		hold = request.Sample
	}
	if n := r.ContentLength; n > 0 && n <= min(hold, claim) {
		if u, ok := r.Body.(*upload); ok {
			if err := u.reserve(n); err != nil {
				return b, err
			}
		}
		b.Bytes = make([]byte, n)
		if _, err := io.ReadFull(r.Body, b.Bytes); err != nil {
			return b, fmt.Errorf("read request body: %w", err)
		}
		return b, nil
	}
	var held bytes.Buffer
	n, err := held.ReadFrom(io.LimitReader(r.Body, hold+1))
	b.Bytes = held.Bytes()
	switch {
	case err != nil:
		return b, fmt.Errorf("read request body: %w", err)
	case n > hold:
		b.Rest = r.Body
		return b, errTooLarge
	default:
		return b, nil
	}
}
