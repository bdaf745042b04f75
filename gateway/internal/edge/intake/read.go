package intake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
)

// The sizes of the first buffer for a body, in bytes, with and without a Content-Length. With
// one, the rest of the memory is then taken in one piece, so that a body is finished once it
// has begun. Other buffers grow as the body arrives.
const firstAnnounced, firstUnknown = 64 << 10, 4 << 10

// Read reads the body of a request up to limit bytes; of a longer one, only the beginning.
func Read(r *http.Request, limit int64) (*request.Body, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return &request.Body{}, nil
	}
	b := &request.Body{Length: r.ContentLength}
	hold := limit
	if r.ContentLength > limit {
		hold = request.Sample
	}
	u := Held(r)
	var err error
	if b.Bytes, err = u.readUpTo(r.Body, hold+1, r.ContentLength); err != nil {
		return b, fmt.Errorf("read request body: %w", err)
	}
	if int64(len(b.Bytes)) > hold {
		b.Rest = r.Body
		u.pass()
	}
	return b, nil
}

// InMemory returns the body that Read would return for text, without copying it.
func InMemory(text []byte, limit int64) *request.Body {
	b := &request.Body{Bytes: text, Length: int64(len(text))}
	if b.Length > limit {
		n := min(len(text), request.Sample)
		b.Bytes, b.Rest = text[:n], bytes.NewReader(text[n:])
	}
	return b
}

// readUpTo reads at most limit bytes, or the announced number, which is -1 if unknown.
func (u *Upload) readUpTo(from io.Reader, limit, announced int64) (text []byte, err error) {
	size := int64(firstUnknown)
	if announced >= 0 {
		limit, size = min(limit, announced), firstAnnounced
	}
	for int64(len(text)) < limit {
		if len(text) == cap(text) {
			size = min(size, limit)
			if err := u.prepare(size - int64(len(text))); err != nil {
				return text, err
			}
			text = append(make([]byte, 0, size), text...)
			if size *= 2; announced >= 0 {
				size = limit
			}
		}
		n, err := from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case int64(len(text)) == limit:
		case errors.Is(err, io.EOF) && announced < 0:
			return text, nil
		case errors.Is(err, io.EOF):
			return text, io.ErrUnexpectedEOF
		case err != nil:
			return text, err
		}
	}
	return text, nil
}

// Refusal returns the refusal of a request whose body could not be read.
func Refusal(err error) provider.Refusal {
	switch {
	case errors.Is(err, ErrNoRoom):
		return provider.Refusal{
			Status: http.StatusServiceUnavailable, Code: "too_many_bodies",
			Message: "the gateway holds as many request bodies as its memory allows; send the request again",
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return provider.Refusal{Status: http.StatusRequestTimeout, Code: "incomplete_body", Message: "the request body did not go on"}
	default:
		return provider.Refusal{Status: http.StatusBadRequest, Code: "incomplete_body", Message: "the request body ended early"}
	}
}
