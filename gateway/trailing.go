package gateway

import (
	"errors"
	"io"
	"net/http"
)

// trailing hands on the trailers of a body that is forwarded while it comes in: they
// are known when it ends.
type trailing struct {
	io.ReadCloser
	from, to *http.Request
}

func (t trailing) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		for name, values := range t.from.Trailer {
			if _, announced := t.to.Trailer[name]; announced {
				t.to.Trailer[name] = values
			}
		}
	}
	return n, err
}
