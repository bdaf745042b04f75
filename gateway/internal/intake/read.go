package intake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/request"
)

// mostAnnounced is the largest body, in bytes, that gets all its memory by its header
// alone. Longer ones get it as they come.
const mostAnnounced = 1 << 20

// Read reads the body of a request if it has at most limit bytes, and the beginning
// of a longer one.
func Read(r *http.Request, limit int64) (*request.Body, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return &request.Body{}, nil
	}
	b := &request.Body{Length: r.ContentLength}
	upload, watched := r.Body.(*Upload)
	hold := limit
	if r.ContentLength > limit {
		hold = request.Sample
	}
	if n := r.ContentLength; n > 0 && n <= min(hold, mostAnnounced) {
		if watched {
			if err := upload.memory.take(n); err != nil {
				return b, err
			}
		}
		b.Bytes = make([]byte, n)
		if _, err := io.ReadFull(r.Body, b.Bytes); err != nil {
			return b, fmt.Errorf("read request body: %w", err)
		}
		return b, nil
	}
	var err error
	if b.Bytes, err = readUpTo(r.Body, hold+1, min(r.ContentLength, hold)); err != nil {
		return b, fmt.Errorf("read request body: %w", err)
	}
	if int64(len(b.Bytes)) > hold {
		b.Rest = r.Body
		if watched {
			upload.memory.pass()
		}
	}
	return b, nil
}

// readUpTo reads at most limit bytes. Once a part of them has come, an announced length is
// believed, so that the rest gets its memory in one piece.
func readUpTo(from io.Reader, limit, announced int64) ([]byte, error) {
	if announced <= mostAnnounced {
		var held bytes.Buffer
		_, err := held.ReadFrom(io.LimitReader(from, limit))
		return held.Bytes(), err
	}
	first := make([]byte, mostAnnounced)
	if n, err := io.ReadFull(from, first); err != nil {
		return first[:n], err
	}
	all := append(make([]byte, 0, announced), first...)
	n, err := io.ReadFull(from, all[len(first):announced])
	return all[:len(first)+n], err
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
