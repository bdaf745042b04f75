package intake

import (
	"errors"
	"net/http"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/encoding"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/size"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Parse returns a request with its prompt, or with the reason why its body can't be
// inspected. limit bounds the length of a body that is decompressed. take reserves
// memory for copies of the body; Parse returns its error.
func Parse(req *request.Request, limit int64, opts provider.Options, take func(n int) error) (*request.Request, error) {
	switch {
	case !req.Target.Format.Prompt():
		return req, nil
	case req.Body.Rest != nil:
		return uninspected(req, request.UninspectedTooLarge), nil
	case req.Method != http.MethodPost:
		return req, nil
	}
	text, err := encoding.Decode(strings.Join(req.Header.Values("Content-Encoding"), ","), req.Body.Bytes, limit, take)
	switch {
	case errors.Is(err, ErrNoRoom):
		return nil, err
	case err != nil:
		return uninspected(req, undecoded(err)), nil
	}
	prompt, err := req.Provider.Parse(text, opts)
	if err != nil {
		if plain, changed := fingerprint.Plain(text); changed {
			if err := take(len(plain)); err != nil {
				return nil, err
			}
			text = plain
			prompt, err = req.Provider.Parse(plain, opts)
		}
	}
	read := *req
	read.Body = req.Body.Decoded(text)
	if prompt != nil && prompt.Size != (size.Size{}) {
		read.Body = read.Body.Sized(prompt.Size)
	}
	if read.Prompt = prompt; err != nil {
		read.Prompt, read.Uninspected = nil, request.UninspectedInvalid
	}
	return &read, nil
}

// uninspected returns a request whose body was not read.
func uninspected(req *request.Request, why string) *request.Request {
	read := *req
	read.Uninspected = why
	return &read
}

// undecoded returns why a compressed body was not read.
func undecoded(err error) string {
	switch {
	case errors.Is(err, encoding.ErrTooLarge):
		return request.UninspectedTooLarge
	case errors.Is(err, encoding.ErrUnknown):
		return request.UninspectedEncoding
	default:
		return request.UninspectedInvalid
	}
}
